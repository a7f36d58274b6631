#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "flotilla/base/error.hpp"
#include "fuzz/execution.hpp"

namespace flotilla::fuzz {
namespace {

constexpr std::size_t longest_line = 500;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Neither line breaks nor what moves a terminal's cursor or changes its state.
bool has_control_characters(const std::string& line) {
  return std::ranges::any_of(line, [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

bool is_error(const std::string& line) { return line.starts_with("flotilla: error: "); }

using Lines = std::vector<std::string>;

void judge_end(const Outcome& outcome, Lines& found) {
  static const std::set<int> known{0, 64, 65, 66, 69, 75, 76, 77};
  if (outcome.timed_out)
    found.push_back(text("hung, after ", outcome.processor_seconds, " s of a processor"));
  else if (outcome.signal == SIGXCPU)
    found.push_back(text("did not end in ", outcome.processor_seconds, " s of a processor"));
  else if (outcome.signal != 0)
    found.push_back(text("ended by signal ", outcome.signal));
  else if (!known.contains(outcome.exit_code))
    found.push_back(text("exit code ", outcome.exit_code));
  if (outcome.err.find("out of memory") != std::string::npos) found.push_back("memory ran out");
}

void judge_messages(const Outcome& outcome, Lines& found) {
  const auto lines = lines_of(outcome.err);
  for (const auto& line : lines) {
    if (!line.starts_with("flotilla: ")) found.push_back("stray line: " + line);
    if (line.size() > longest_line) found.push_back(text("a line of ", line.size(), " characters: ", line));
    if (has_control_characters(line)) found.push_back("control characters in a message");
    if (!is_utf8(line)) found.push_back("a message that is not UTF-8");
  }
  const auto errors = std::ranges::count_if(lines, is_error);
  if (errors > 1) found.push_back(text(errors, " error lines"));
  if (errors == 1 && outcome.exit_code == 0) found.push_back("an error line and exit code 0");
  if (errors == 0 && outcome.exit_code > 0 && outcome.out.empty()) found.push_back("no word about the failure");
}

void judge_output(const Invocation& invocation, const Outcome& outcome, Lines& found) {
  for (const auto& line : lines_of(outcome.out)) {
    if (has_control_characters(line)) found.push_back("control characters in the output: " + line);
    if (!is_utf8(line)) found.push_back("output that is not UTF-8");
  }
  const auto& words = invocation.arguments;
  const auto format = std::ranges::find(words, "--format=json");
  if (outcome.exit_code == 0 && format != words.end() && !outcome.out.empty() && !nlohmann::json::accept(outcome.out))
    found.push_back("JSON that does not parse");
}

}  // namespace

std::vector<std::string> findings(const Invocation& invocation, const Outcome& outcome) {
  Lines found;
  judge_end(outcome, found);
  if (outcome.timed_out || outcome.signal != 0) return found;
  judge_messages(outcome, found);
  judge_output(invocation, outcome, found);
  return found;
}

std::vector<std::string> unnamed_inputs(const Invocation& invocation, const Outcome& outcome) {
  constexpr int bad_input = 65, no_input = 66;  // a damaged file may name others
  if ((outcome.exit_code != bad_input && outcome.exit_code != no_input) || invocation.inputs.empty()) return {};
  auto lines = lines_of(outcome.err);
  const auto names = [](const std::string& line) {
    return [&line](const std::string& input) { return line.find(input) != std::string::npos; };
  };
  std::erase_if(lines, [&](const auto& line) { return !is_error(line) || std::ranges::any_of(invocation.inputs, names(line)); });
  return lines;
}

}  // namespace flotilla::fuzz
