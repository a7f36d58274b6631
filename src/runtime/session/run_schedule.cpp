#include "flotilla/session/run_schedule.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/steps.hpp"
#include "flotilla/session/phases.hpp"

namespace flotilla::session {
namespace {

constexpr const char* schedule_key = "learning-rate schedule";
constexpr const char* steps_key = "decay steps";
constexpr const char* cooldown_key = "cooldown steps";

/// What the checkpoint says under a key of its provenance.
std::optional<std::string> saved_words(const std::optional<checkpoint::Loaded>& saved, const char* key) {
  if (!saved) return std::nullopt;
  const auto& all = saved->manifest.provenance;
  const auto found = std::ranges::find(all, key, &std::pair<std::string, std::string>::first);
  return found == all.end() ? std::nullopt : std::optional{found->second};
}

[[noreturn]] void refuse(const checkpoint::Loaded& saved, const char* key, const std::string& expected, const std::string& words,
                         const char* option) {
  throw Error{ErrorKind::bad_input, text((saved.directory / "manifest.json").string(), ": /provenance/", key, ": expected ", expected,
                                         ", got ", in_quotes(words), "; ", option, " overrides it")};
}

std::optional<std::int64_t> saved_steps(const std::optional<checkpoint::Loaded>& saved, const char* key, const char* option) {
  const auto words = saved_words(saved, key);
  if (!words) return std::nullopt;
  std::int64_t steps = 0;
  const auto read = std::from_chars(words->data(), words->data() + words->size(), steps);
  if (read.ec != std::errc{} || read.ptr != words->data() + words->size() || steps <= 0 || steps > most_run_steps)
    refuse(*saved, key, "a number of steps", *words, option);
  return steps;
}

std::optional<train::RateSchedule> saved_schedule(const std::optional<checkpoint::Loaded>& saved) {
  const auto words = saved_words(saved, schedule_key);
  if (!words) return std::nullopt;
  if (!std::ranges::count(train::rate_schedule_names(), *words))
    refuse(*saved, schedule_key, "a schedule's name", *words, "--training.learning-rate-schedule");
  return train::parse_rate_schedule(*words);
}

std::int64_t cooldown_of(const RunConfig::Training& t, const RunSchedule& schedule, const std::optional<checkpoint::Loaded>& saved) {
  if (!train::cools_down(schedule.schedule)) return 0;
  if (t.cooldown_steps > 0) return t.cooldown_steps;
  if (const auto steps = saved_steps(saved, cooldown_key, "--training.cooldown-steps")) return *steps;
  return usual_cooldown(schedule.steps);
}

}  // namespace

std::int64_t usual_cooldown(std::int64_t steps) {
  constexpr std::int64_t part = 10;
  return std::max<std::int64_t>(1, steps / part);
}

RunSchedule run_schedule(const RunConfig& config, const std::optional<checkpoint::Loaded>& saved) {
  const auto& t = config.training;
  RunSchedule result;
  if (t.learning_rate_schedule)
    result.schedule = *t.learning_rate_schedule;
  else
    result.schedule = saved_schedule(saved).value_or(train::RateSchedule::cosine);
  result.steps =
      t.decay_steps > 0 ? t.decay_steps : saved_steps(saved, steps_key, "--training.decay-steps").value_or(declared_steps(config));
  result.cooldown = cooldown_of(t, result, saved);
  return result;
}

std::vector<std::pair<std::string, std::string>> provenance_of(const RunSchedule& schedule) {
  std::vector<std::pair<std::string, std::string>> words{{schedule_key, train::to_string(schedule.schedule)},
                                                         {steps_key, std::to_string(schedule.steps)}};
  if (schedule.cooldown > 0) words.emplace_back(cooldown_key, std::to_string(schedule.cooldown));
  return words;
}

std::vector<std::string> remarks_on(const RunConfig& config, const RunSchedule& schedule, const std::optional<checkpoint::Loaded>& saved) {
  const auto& t = config.training;
  const auto name = train::to_string(schedule.schedule);
  std::vector<std::string> remarks;
  if (saved_words(saved, schedule_key) && !t.learning_rate_schedule && schedule.schedule != train::RateSchedule::cosine)
    remarks.push_back(text("the learning rate keeps the schedule of the checkpoint, ", name,
                           "; to change that: --training.learning-rate-schedule cosine"));
  const bool ends = train::decays(schedule.schedule) && t.learning_rate != t.minimum_learning_rate;
  const auto declared = declared_steps(config);
  if (ends && t.decay_steps == 0 && schedule.steps != declared)
    remarks.push_back(text("the learning rate decays over ", schedule.steps, " steps, as in the checkpoint, not over the ", declared,
                           " of ", config.phases.empty() ? "--training.steps" : "all phases", "; to change that: --training.decay-steps ",
                           declared));
  return remarks;
}

std::string run_schedule_to_text(const RunSchedule& schedule) {
  return text(static_cast<int>(schedule.schedule), " ", schedule.steps, " ", schedule.cooldown);
}

RunSchedule run_schedule_from_text(const std::string& words) {
  std::istringstream in{words};
  RunSchedule schedule;
  int number = 0;
  in >> number >> schedule.steps >> schedule.cooldown;
  FLOTILLA_ASSERT(in, words);
  schedule.schedule = static_cast<train::RateSchedule>(number);
  return schedule;
}

train::LearningRate learning_rate_of(const RunConfig& config, const RunSchedule& schedule) {
  const auto& t = config.training;
  return {t.learning_rate, t.minimum_learning_rate, t.warmup_steps, schedule.steps, schedule.schedule, schedule.cooldown};
}

}  // namespace flotilla::session
