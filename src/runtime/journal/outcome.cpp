#include "flotilla/journal/outcome.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/steps.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "incarnation.hpp"
#include "limits.hpp"
#include "publish.hpp"

namespace flotilla::journal {
namespace {

// The gravest first. A lost peer says least: it is how the others see a rank that failed for another reason.
constexpr std::array gravity{ExitCode::internal, ExitCode::bad_input, ExitCode::no_input, ExitCode::unavailable, ExitCode::no_plan,
                             ExitCode::usage,    ExitCode::lost_peer, ExitCode::requeue,  ExitCode::done};

auto gravity_of(ExitCode code) { return std::ranges::find(gravity, code) - gravity.begin(); }

std::filesystem::path outcomes_folder(const std::filesystem::path& run) { return run / "outcomes"; }

std::string to_json(const Outcome& outcome) {
  files::JsonLine line;
  line.add("incarnation", outcome.incarnation).add("exit_code", static_cast<int>(outcome.exit_code)).add("reason", outcome.reason);
  line.add("step", outcome.step).add("time", outcome.time).add("rank", outcome.rank).add("host", outcome.host);
  line.add("temporary", outcome.temporary);
  return line.text() + "\n";
}

Outcome read_one(const std::filesystem::path& path) {
  const auto json = files::Json::parse(files::read_text(path, small_file), path.string());
  Outcome outcome;
  outcome.incarnation = json.get_int("incarnation", 0, last_incarnation);
  outcome.rank = json.get_int("rank", 0);
  outcome.host = json.get_string("host");
  outcome.exit_code = static_cast<ExitCode>(json.get_int("exit_code"));
  if (gravity_of(outcome.exit_code) == std::ssize(gravity)) json.at("exit_code").refuse("expected one of Flotilla's exit codes");
  outcome.reason = json.get_string("reason");
  outcome.step = json.at("step").as_int64(0, most_run_steps);
  outcome.time = json.at("time").as_double(0, latest_time);
  outcome.temporary = json.has("temporary") && json.at("temporary").as_bool();
  return outcome;
}

/// Whether a file's name is "<incarnation>.<rank>.json".
bool belongs_to(const std::string& name, int incarnation) {
  const auto prefix = text(incarnation, ".");
  if (!name.starts_with(prefix)) return false;
  int rank = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, rank);
  return error == std::errc{} && std::string_view{rest, static_cast<std::size_t>(end - rest)} == ".json";
}

template <class Each>
void for_each_file(const std::filesystem::path& run, int incarnation, Each each) {
  for (const auto& name : files::names_in(outcomes_folder(run)).value_or(std::vector<std::string>{}))
    if (belongs_to(name, incarnation)) each(outcomes_folder(run) / name);
}

/// What can be read: one damaged file must not hide the others.
std::optional<Outcome> merged(const std::filesystem::path& run, int incarnation) {
  std::vector<Outcome> outcomes;
  for_each_file(run, incarnation, [&](const auto& path) {
    try {
      outcomes.push_back(read_one(path));
    } catch (const Error&) {
    }
  });
  return merge(outcomes);
}

/// Every writer looks again after its rename: whoever renames last has seen all files written before, so the last word is the merge of all.
void update_summary(const std::filesystem::path& run, int incarnation) {
  for (auto now = merged(run, incarnation); now;) {
    if (newest_incarnation(run) > incarnation) return;
    files::write_text(outcome_file(run), to_json(*now));
    auto after = merged(run, incarnation);
    if (after == now) return;
    now = std::move(after);
  }
}

/// With thousands of ranks that all lost the same peer, each needs to look at one file only. Who changes the summary after us has seen the
/// file of whoever wrote what stands there now.
bool already_told(const std::filesystem::path& run, const Outcome& mine) {
  try {
    const auto summary = read_outcome(run);
    return summary && summary->incarnation == mine.incarnation && merge({*summary, mine}) == summary;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool write_outcome(const std::filesystem::path& run, Outcome outcome) noexcept {
  if (outcome.incarnation < 1) return false;  // it never held the directory: what is there belongs to others
  try {
    if (outcome.time == 0) outcome.time = wall_clock();
    outcome.reason = message_line(outcome.reason);
    files::make_own_folder(outcomes_folder(run));
    const bool first = publish_once(outcomes_folder(run) / text(outcome.incarnation, ".", outcome.rank, ".json"), to_json(outcome));
    if (!first || !already_told(run, outcome)) update_summary(run, outcome.incarnation);
    return true;
  } catch (const std::exception& error) {
    log::error("the outcome (exit code ", static_cast<int>(outcome.exit_code), ", ", outcome.reason,
               ") could not be written: ", error.what());
  }
  return false;
}

std::optional<Outcome> merge(const std::vector<Outcome>& outcomes) {
  if (outcomes.empty()) return std::nullopt;
  const auto key = [](const Outcome& o) { return std::tuple{gravity_of(o.exit_code), o.time, o.rank}; };
  return *std::ranges::min_element(outcomes, {}, key);
}

std::vector<Outcome> read_outcomes(const std::filesystem::path& run, int incarnation) {
  std::vector<Outcome> outcomes;
  for_each_file(run, incarnation, [&](const auto& path) { outcomes.push_back(read_one(path)); });
  std::ranges::sort(outcomes, {}, &Outcome::rank);
  return outcomes;
}

std::optional<Outcome> read_outcome(const std::filesystem::path& run) {
  const auto path = outcome_file(run);
  if (!files::facts_of(path)) return std::nullopt;
  return read_one(path);
}

}  // namespace flotilla::journal
