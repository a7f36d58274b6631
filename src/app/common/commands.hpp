#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/exit_code.hpp"
#include "flotilla/options/documents.hpp"
#include "flotilla/options/table.hpp"

namespace flotilla::app {

/// A table and the structs that it fills.
struct BoundTable {
  std::shared_ptr<void> target;
  options::Table table;
};

/// One `flotilla <name>`.
struct Command {
  std::string name;
  std::string summary;   ///< one line, no full stop
  std::string operands;  ///< "JOB", "FILE"
  /// Arguments after the name; returns the exit code. Throws Error.
  std::function<int(std::span<const std::string>)> run;
  /// The options, for help, man page and completion; empty where there are none.
  std::function<BoundTable()> options;
  bool hidden = false;    ///< not in the list of `flotilla help`
  bool computes = false;  ///< on several threads
};

/// The options of a job, for commands that read one.
BoundTable job_options();
/// -o, --format, --log-level.
BoundTable output_options();

/// What was linked: name and version by line.
using Versions = std::function<std::vector<std::pair<std::string, std::string>>()>;

/// Runs the command that the arguments (without the program's name) ask for and returns its exit code. Besides `commands` it knows help,
/// man, completion, --help and --version. Nothing escapes: errors end as one line on standard error and the table's exit code.
int run_command(std::span<const Command> commands, std::span<const std::string> arguments, const Versions&);

/// Whether the arguments ask for a command that computes.
bool computes(std::span<const Command>, std::span<const std::string> arguments);

/// Asked first when a command fails. Returns true where it has said so itself (a rank of a job prints rank and host).
using FailureHook = std::function<bool(ExitCode, const std::string& line)>;
void set_failure_hook(FailureHook);

/// Texts, for tests and documents.
std::string usage(std::span<const Command>);
std::string command_help(const Command&, int width);
std::string manual(std::span<const Command>);
std::string completion(std::span<const Command>);
/// Exit codes and what they mean, in order.
std::vector<std::pair<std::string, std::string>> exit_codes();

}  // namespace flotilla::app
