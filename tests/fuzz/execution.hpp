#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace flotilla::fuzz {

/// One start of the program.
struct Invocation {
  std::vector<std::string> arguments;  ///< after the program's name
  std::map<std::string, std::string> environment;
  std::filesystem::path folder;  ///< the working directory
  /// What is damaged. Messages that refuse an input name one of these; empty: any place will do.
  std::vector<std::string> inputs = {};
};

/// How it ended and what it wrote.
struct Outcome {
  int exit_code = -1;  ///< -1: ended by a signal
  int signal = 0;
  bool timed_out = false;
  double processor_seconds = 0;
  std::string out, err;
};

/// Runs the program's commands in a forked process: a start costs a millisecond, and a crash ends the child alone. The caller has one
/// thread. A child is ended by SIGXCPU after so many processor seconds (0: any), killed when it hangs, and refused more than a few GiB.
/// Besides the program's commands it knows `tokens FILE`, which reads a token file as training does, `weights DIR` and
/// `job-script`, which reads the run in the folder as slurm/flotilla.sh does. Throws std::system_error where no
/// process can be started.
Outcome execute(const Invocation&, int processor_seconds);

/// What no input may bring about, one line each; empty where all is as it should be: a signal, a time-out, an exit code outside the table
/// or 70, memory that ran out, more than one error line or none where one is due, lines that are no messages, lines over 500 characters,
/// control characters, text that is not UTF-8, and JSON that does not parse.
std::vector<std::string> findings(const Invocation&, const Outcome&);

/// Error lines that refuse an input (exit codes 65 and 66) and name none of the damaged ones.
std::vector<std::string> unnamed_inputs(const Invocation&, const Outcome&);

}  // namespace flotilla::fuzz
