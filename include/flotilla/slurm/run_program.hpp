#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::slurm {

/// What a program that was run said.
struct ProgramOutput {
  int status = 0;   ///< exit code; 128 + the signal's number where one ended it
  std::string out;  ///< standard output
  std::string err;  ///< standard error
  bool good() const { return status == 0; }
};

/// Runs a program found on PATH with these arguments, word for word: no shell sees them. Standard input is `input`; settings
/// of the user for Slurm's programs (SLURM_*, SINFO_*, SQUEUE_*, ...) are left out, but for where the cluster is. Local; returns when it
/// has ended. Throws Error{unavailable} where it cannot be started, does not end within `deadline` (it is killed) or says more than 1 GiB.
ProgramOutput run_program(const std::vector<std::string>& arguments, Seconds deadline = Seconds{60}, std::string_view input = {});

/// Its standard output. Throws Error{unavailable} with what it said on standard error where its exit code is not 0.
std::string answer_of(const std::vector<std::string>& arguments, Seconds deadline = Seconds{60}, std::string_view input = {});

}  // namespace flotilla::slurm
