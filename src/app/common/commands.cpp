#include "app/common/commands.hpp"

#include <algorithm>
#include <iostream>
#include <new>

#include "app/common/job_table.hpp"
#include "app/common/table.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_exception.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/nearest.hpp"

namespace flotilla::app {
namespace {

FailureHook& failure_hook() {
  static FailureHook hook;
  return hook;
}

int fail(ExitCode code, const std::string& line) {
  const auto& hook = failure_hook();
  if (!hook || !hook(code, line)) log::error(line);
  return static_cast<int>(code);
}

std::string first_word(std::span<const std::string> arguments) { return arguments.empty() ? "" : arguments[0]; }

const Command* find(std::span<const Command> commands, const std::string& name) {
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

const Command& require(std::span<const Command> commands, const std::string& name) {
  if (const auto* command = find(commands, name)) return *command;
  std::vector<std::string> names{"help"};
  for (const auto& command : commands) names.push_back(command.name);
  throw Error{ErrorKind::usage, text("no such command: ", in_quotes(name), suggestion(name, names), "; flotilla help lists them all")};
}

/// --help or -h before any "--".
bool asks_for_help(std::span<const std::string> arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::any_of(arguments.begin(), end, [](const std::string& a) { return a == "--help" || a == "-h"; });
}

/// Once, however many processes a launcher starts.
int print(const std::string& text) {
  if (options::is_first_process()) write_output({}, text);
  return 0;
}

int help(std::span<const Command> commands, std::span<const std::string> arguments) {
  if (arguments.empty()) return print(usage(commands));
  FLOTILLA_REQUIRE(arguments.size() == 1, ErrorKind::usage, "expected: flotilla help [command]");
  return print(command_help(require(commands, arguments[0]), output_width()));
}

/// Of every process: nodes may differ.
int version(const Versions& versions) {
  write_output({}, key_values(versions()));
  return 0;
}

int dispatch(std::span<const Command> commands, std::span<const std::string> arguments, const Versions& versions) {
  const auto name = first_word(arguments);
  const auto rest = arguments.subspan(arguments.empty() ? 0 : 1);
  if (name.empty()) {
    if (options::is_first_process()) std::cerr << usage(commands);
    return static_cast<int>(ExitCode::usage);
  }
  if (name == "help" || name == "--help" || name == "-h") return help(commands, rest);
  if (name == "--version" || name == "version") return version(versions);
  if (name == "man") return print(manual(commands));
  if (name == "completion") return print(completion(commands));
  if (!find(commands, name) && !options::is_first_process()) return static_cast<int>(ExitCode::usage);
  const auto& command = require(commands, name);
  if (asks_for_help(rest)) return print(command_help(command, output_width()));
  return command.run(rest);
}

/// Tables and the commands that refer to them, which documents are made from.
struct Documented {
  std::vector<std::unique_ptr<BoundTable>> tables;
  std::vector<options::DocumentedCommand> commands;
};

Documented documented(std::span<const Command> commands) {
  Documented all;
  for (const auto& command : commands) {
    if (command.hidden) continue;
    const options::Table* table = nullptr;
    if (command.options) table = &all.tables.emplace_back(std::make_unique<BoundTable>(command.options()))->table;
    all.commands.push_back({command.name, command.summary, command.operands, table});
  }
  all.commands.push_back({"help", "describe a command and list its options", "[COMMAND]", nullptr});
  all.commands.push_back({"man", "print the manual page", "", nullptr});
  all.commands.push_back({"completion", "print the completion script for bash", "", nullptr});
  return all;
}

}  // namespace

BoundTable job_options() {
  auto job = std::make_shared<Job>();
  auto table = job_table(*job);
  return {job, std::move(table)};
}

BoundTable output_options() {
  auto output = std::make_shared<Job::Output>();
  options::Table table;
  add_output(table, *output);
  return {output, std::move(table)};
}

void set_failure_hook(FailureHook hook) { failure_hook() = std::move(hook); }

bool computes(std::span<const Command> commands, std::span<const std::string> arguments) {
  const auto* command = find(commands, first_word(arguments));
  return command != nullptr && command->computes;
}

int run_command(std::span<const Command> commands, std::span<const std::string> arguments, const Versions& versions) {
  try {
    return dispatch(commands, arguments, versions);
  } catch (const Error& error) {
    return fail(exit_code(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::unavailable, "out of memory");
  } catch (const std::exception& error) {
    const auto kind = kind_of(error);
    return fail(exit_code(kind), kind == ErrorKind::internal ? text("internal error: ", error.what()) : in_words(error));
  } catch (...) {
    return fail(ExitCode::internal, "internal error of an unknown kind");
  }
}

std::string usage(std::span<const Command> commands) {
  std::string out = "usage: flotilla COMMAND [OPTIONS] [FILE]\n\n";
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& c : documented(commands).commands)
    lines.emplace_back("  " + c.name + (c.operands.empty() ? "" : " " + c.operands), c.summary);
  return out + key_values(lines) + "\nflotilla help COMMAND lists a command's options; flotilla --version says what was linked.\n";
}

std::string command_help(const Command& command, int width) {
  std::string out = "usage: flotilla " + command.name + (command.options ? " [OPTIONS]" : "") +
                    (command.operands.empty() ? "" : " " + command.operands) + "\n\n" + command.summary + ".\n";
  if (!command.options) return out;
  out += "\n" +
         options::wrap(
             "Every option may also be given in the environment (FLOTILLA_SECTION_KEY); the job file has [section] and key. "
             "The command line overrides the environment, which overrides the job file.",
             0, width) +
         "\n\n";
  return out + options::help(command.options().table, width);
}

std::vector<std::pair<std::string, std::string>> exit_codes() {
  const auto code = [](ExitCode c) { return std::to_string(static_cast<int>(c)); };
  return {{code(ExitCode::done), "done"},
          {"1", "bench: a threshold was crossed"},
          {code(ExitCode::usage), "the command line is wrong"},
          {code(ExitCode::bad_input), "a file or a value in it is wrong"},
          {code(ExitCode::no_input), "a file or folder is not there, or may not be read"},
          {code(ExitCode::unavailable), "something is missing: a device, a library, space on a disk"},
          {code(ExitCode::internal), "an error of Flotilla's own"},
          {code(ExitCode::requeue), "saved; start the job again"},
          {code(ExitCode::no_plan), "no plan fits the devices"},
          {code(ExitCode::lost_peer), "a peer or node was lost"}};
}

std::string manual(std::span<const Command> commands) {
  const auto all = documented(commands);
  return options::man_page(
      {"flotilla",
       FLOTILLA_VERSION,
       "plan and train transformers on mixed accelerators",
       {"Flotilla measures the nodes of a job, finds the fastest way to split a transformer over them and trains it on their CPUs and GPUs. "
        "When the allocation changes, the run resumes on other devices from the next unseen sample. train and probe are started on "
        "every rank, by mpirun or srun.",
        "Every option may be given on the command line (--section.key value), in the environment (FLOTILLA_SECTION_KEY) or in the job "
        "file, in TOML (key = value under [section]). The command line overrides the environment, which overrides the job file. "
        "Quantities need a unit: 64MiB, 90s."},
       all.commands,
       exit_codes()});
}

std::string completion(std::span<const Command> commands) { return options::bash_completion("flotilla", documented(commands).commands); }

}  // namespace flotilla::app
