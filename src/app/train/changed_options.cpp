#include "app/train/changed_options.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "app/common/job_table.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/session/run_schedule.hpp"

namespace flotilla::app {
namespace {

using options::Setting;

constexpr std::string_view configuration_key = "configuration";

/// Who changes one of these goes on with the same run or is refused: what they name is compared by content.
constexpr std::array fixed_options{"model.name",
                                   "model.config",
                                   "model.weights",
                                   "run.from",
                                   "training.seed",
                                   "training.length",
                                   "training.global-batch",
                                   "data.train",
                                   "data.format",
                                   "data.tokenizer",
                                   "data.field",
                                   "data.chat-template",
                                   "data.eod",
                                   "data.documents",
                                   "data.document-end",
                                   "data.validation-fraction"};
/// These are named by their own refusals, or change nothing that is computed.
constexpr std::array silent_options{"training.freeze", "training.evaluate-every", "data.cache", "device.memory", "comm.deadline"};
/// Of the others, those in these sections alter what is computed. A plan is told as the run's plan.
constexpr std::array altering_sections{"model", "data", "training", "phase", "device", "comm"};

/// "phase.steps" for "phase[2].steps".
std::string without_number(std::string name) {
  if (const auto open = name.find('['); open != std::string::npos) name.erase(open, name.find(']') - open + 1);
  return name;
}

bool is_fixed(const std::string& name) { return name.starts_with("data.source.") || std::ranges::count(fixed_options, name) > 0; }

/// Later phases may change, earlier ones may not.
bool is_fixed_in_part(const std::string& name) { return name.starts_with("phase."); }

bool alters(const std::string& name) {
  return !is_fixed(name) && std::ranges::count(silent_options, name) == 0 &&
         std::ranges::count(altering_sections, name.substr(0, name.find('.'))) > 0;
}

std::optional<Job> job_of(const checkpoint::Loaded& saved) {
  const auto& words = saved.manifest.provenance;
  const auto found = std::ranges::find(words, configuration_key, &std::pair<std::string, std::string>::first);
  if (found == words.end()) return std::nullopt;
  Job job;
  auto table = job_table(job);
  try {
    table.read_toml(found->second, (saved.directory / "manifest.json").string() + ": /provenance/configuration");
    job.settings = all_settings(table);
  } catch (const Error& error) {  // of a version with other options
    log::warning("what changed since step ", saved.manifest.step, " is not known: ", error.what());
    return std::nullopt;
  }
  return job;
}

/// By name; the schedule of the learning rate as it counts, not as "auto".
std::map<std::string, std::string> values_of(const Job& job, const session::RunSchedule& schedule) {
  std::map<std::string, std::string> values;
  for (const Setting& s : job.settings) values[s.name] = s.value;
  values["training.learning-rate-schedule"] = train::to_string(schedule.schedule);
  values["training.decay-steps"] = std::to_string(schedule.steps);
  values["training.cooldown-steps"] = std::to_string(schedule.cooldown);
  return values;
}

/// As it counts: left open, it was that of the plan, and is the checkpoint's.
void settle_precision(std::map<std::string, std::string>& then, std::map<std::string, std::string>& now, const checkpoint::Loaded& saved) {
  constexpr const char *name = "training.precision", *open = "auto";
  if (!saved.manifest.plan.empty())
    then[name] = to_string(files::plan_from_json(saved.manifest.plan, (saved.directory / "manifest.json").string() + ": /plan").precision);
  if (now[name] == open) now[name] = then[name];
}

std::string shown(const std::map<std::string, std::string>& values, const std::string& name) {
  constexpr std::size_t most = 60;
  const auto found = values.find(name);
  return found == values.end() || found->second.empty() ? "unset" : printable(found->second, most);
}

void add(std::string& list, const std::string& name, const std::string& before, const std::string& after) {
  constexpr std::string_view usual = "training.";
  list += text(list.empty() ? "" : ", ", name.starts_with(usual) ? name.substr(usual.size()) : name, " ", before, " -> ", after);
}

}  // namespace

ChangedOptions changed_options(const Job& job, const checkpoint::Loaded& saved) {
  const auto before = job_of(saved);
  if (!before) return {};
  auto then = values_of(*before, session::run_schedule(*before, saved)), now = values_of(job, session::run_schedule(job, saved));
  settle_precision(then, now, saved);
  auto names = now;
  names.insert(then.begin(), then.end());
  ChangedOptions changed;
  for (const auto& [name, value] : names) {
    const auto was = shown(then, name), is = shown(now, name), plain = without_number(name);
    if (was == is) continue;
    if (alters(plain)) add(changed.accepted, name, was, is);
    if (is_fixed(plain) || is_fixed_in_part(plain)) add(changed.fixed, name, was, is);
  }
  return changed;
}

}  // namespace flotilla::app
