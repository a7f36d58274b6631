#pragma once
#include <span>
#include <string>

namespace flotilla::app {

/// `flotilla probe [JOB] [-o FILE]`: measures devices and links for the job's model, length and precision and prints them; -o writes the
/// cluster profile too. The same on every rank, and so is the exit code; a rank that cannot go on alone ends the job.
int probe(std::span<const std::string> arguments);

}  // namespace flotilla::app
