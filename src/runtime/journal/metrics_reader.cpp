#include <algorithm>
#include <limits>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/base/steps.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "incarnation.hpp"
#include "limits.hpp"

namespace flotilla::journal {
namespace {

using files::Json;

/// What is not a number is written as null: JSON has no NaN.
double number(const Json& json, const char* key) {
  const auto value = json.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.as_double();
}
/// What cannot be less than nothing.
double quantity(const Json& json, const char* key, double most = std::numeric_limits<double>::max()) {
  const auto value = json.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.as_double(0, most);
}
double duration(const Json& json, const char* key) { return quantity(json, key, longest_duration); }

template <class Record>
Record with_stamps(const Json& json) {
  Record record;
  record.step = json.at("step").as_int64(0, most_run_steps);
  record.time = json.at("time").as_double(0, latest_time);
  record.incarnation = json.get_int("incarnation", 0, last_incarnation);
  return record;
}

StepRecord read_step(const Json& json) {
  auto r = with_stamps<StepRecord>(json);
  r.loss = number(json, "loss");
  r.tokens_per_second = quantity(json, "tokens_per_second");
  r.step_seconds = duration(json, "step_seconds");
  r.share_of_peak = quantity(json, "share_of_peak");
  r.learning_rate = quantity(json, "learning_rate");
  r.gradient_norm = quantity(json, "gradient_norm");
  r.eta_seconds = quantity(json, "eta_seconds");
  if (json.has("counted_tokens")) r.counted_tokens = json.get_int64("counted_tokens", 0);
  if (json.has("digest")) r.digest = json.get_string("digest");
  if (json.has("sources"))
    for (const auto& source : json.at("sources").items())
      r.sources.push_back({source.get_string("source"), number(source, "loss"), source.get_int64("tokens", 0)});
  return r;
}
StartRecord read_start(const Json& json) {
  auto r = with_stamps<StartRecord>(json);
  r.ranks = json.get_int("ranks", 0);
  r.plan = json.get_string("plan");
  r.host = json.get_string("host");
  r.version = json.get_string("version");
  if (json.has("changed")) r.changed = json.get_string("changed");
  return r;
}
DevicesRecord read_devices(const Json& json) {
  auto r = with_stamps<DevicesRecord>(json);
  r.launched = json.at("launched").as_double(0, latest_time);
  r.origin = json.get_string("origin");
  if (json.at("groups").size() > most_groups) json.at("groups").refuse(text("expected at most ", most_groups, " groups"));
  for (const auto& group : json.at("groups").items())
    r.devices.push_back(
        {group.get_string("device_type"), group.get_string("zone"), group.get_int("devices", 0), group.get_int("hosts", 0)});
  return r;
}
StartedRecord read_started(const Json& json) {
  auto r = with_stamps<StartedRecord>(json);
  r.opening_seconds = duration(json, "opening_seconds");
  r.measuring_seconds = duration(json, "measuring_seconds");
  r.planning_seconds = duration(json, "planning_seconds");
  r.connecting_seconds = duration(json, "connecting_seconds");
  r.loading_seconds = duration(json, "loading_seconds");
  r.first_step_seconds = duration(json, "first_step_seconds");
  return r;
}
EvaluationRecord read_evaluation(const Json& json) {
  auto r = with_stamps<EvaluationRecord>(json);
  r.loss = number(json, "loss");
  r.sequences = json.get_int64("sequences", 0);
  r.seconds = duration(json, "seconds");
  if (json.has("sources"))
    for (const auto& source : json.at("sources").items()) r.sources.push_back({source.get_string("source"), number(source, "loss")});
  return r;
}
DataRecord read_data(const Json& json) {
  auto r = with_stamps<DataRecord>(json);
  for (const auto& source : json.at("sources").items())
    r.sources.push_back(
        {source.get_string("source"), quantity(source, "weight"), source.get_int64("sequences", 0), source.get_int64("drawn", 0)});
  return r;
}
CheckpointRecord read_checkpoint(const Json& json) {
  auto r = with_stamps<CheckpointRecord>(json);
  r.bytes = json.get_int64("bytes", 0);
  r.seconds = duration(json, "seconds");
  if (json.has("pause_seconds")) r.pause_seconds = duration(json, "pause_seconds");
  if (json.has("local")) r.local = json.get_string("local");
  if (json.has("hosts")) r.hosts = json.get_string("hosts");
  return r;
}
ForecastRecord read_forecast(const Json& json) {
  auto r = with_stamps<ForecastRecord>(json);
  r.forecast_seconds = duration(json, "forecast_seconds");
  r.relative_error = quantity(json, "relative_error");
  r.measured_seconds = duration(json, "measured_seconds");
  r.iterations = json.get_int64("iterations", 0);
  r.inside_error_bar = json.get_bool("inside_error_bar");
  return r;
}
WrongFigure read_figure(const Json& json) {
  WrongFigure f;
  f.subject = json.get_string("subject");
  f.figure = json.get_string("figure");
  f.tensor_parallel = json.get_int("tensor_parallel", 1);
  f.sequences = json.get_int("sequences", 1);
  f.profile_seconds = duration(json, "profile_seconds");
  f.measured_seconds = duration(json, "measured_seconds");
  f.lower_quartile = quantity(json, "lower_quartile");
  f.upper_quartile = quantity(json, "upper_quartile");
  f.relative_error = quantity(json, "relative_error");
  f.inferred = json.get_bool("inferred");
  return f;
}
CorrectionRecord read_correction(const Json& json) {
  auto r = with_stamps<CorrectionRecord>(json);
  r.iterations = json.get_int64("iterations", 0);
  r.forecast_seconds = duration(json, "forecast_seconds");
  r.corrected_seconds = duration(json, "corrected_seconds");
  r.measured_seconds = duration(json, "measured_seconds");
  r.file = json.get_string("file");
  if (json.at("figures").size() > most_groups) json.at("figures").refuse(text("expected at most ", most_groups, " figures"));
  for (const auto& figure : json.at("figures").items()) r.figures.push_back(read_figure(figure));
  return r;
}
PlanRecord read_plan(const Json& json) {
  auto r = with_stamps<PlanRecord>(json);
  r.plan = json.get_string("plan");
  r.reason = json.get_string("reason");
  r.refused = json.get_string("refused");
  r.moved_bytes = json.get_int64("moved_bytes", 0);
  r.pause_seconds = duration(json, "pause_seconds");
  return r;
}
PhaseRecord read_phase(const Json& json) {
  auto r = with_stamps<PhaseRecord>(json);
  r.phase = json.get_string("phase");
  r.length = json.get_int("length", 1);
  r.global_batch = json.get_int("global_batch", 1);
  return r;
}
SlowRecord read_slow(const Json& json) {
  auto r = with_stamps<SlowRecord>(json);
  r.rank = json.get_int("rank", 0);
  r.host = json.get_string("host");
  r.stage = json.get_int("stage", 0);
  r.peer = json.get_int("peer");
  r.over = json.get_bool("over");
  r.factor = quantity(json, "factor");
  r.cost_seconds = duration(json, "cost_seconds");
  r.group = json.has("group") ? json.get_string("group") : "";
  r.link = json.has("link") ? json.get_string("link") : "";
  return r;
}
StopRecord read_stop(const Json& json) {
  auto r = with_stamps<StopRecord>(json);
  r.exit_code = static_cast<ExitCode>(json.get_int("exit_code", 0, 255));
  r.reason = json.get_string("reason");
  r.refused = json.get_string("event") == "refused";
  return r;
}

void add_line(Metrics& metrics, const Json& json) {
  if (!json.is_object()) json.refuse("expected an object");
  if (!json.has("event")) return metrics.steps.push_back(read_step(json));
  const auto event = json.get_string("event");
  if (event == "start") metrics.starts.push_back(read_start(json));
  if (event == "devices") metrics.devices.push_back(read_devices(json));
  if (event == "started") metrics.started.push_back(read_started(json));
  if (event == "evaluation") metrics.evaluations.push_back(read_evaluation(json));
  if (event == "data") metrics.data.push_back(read_data(json));
  if (event == "checkpoint") metrics.checkpoints.push_back(read_checkpoint(json));
  if (event == "forecast") metrics.forecasts.push_back(read_forecast(json));
  if (event == "correction") metrics.corrections.push_back(read_correction(json));
  if (event == "plan") metrics.plans.push_back(read_plan(json));
  if (event == "phase") metrics.phases.push_back(read_phase(json));
  if (event == "slow") metrics.slow.push_back(read_slow(json));
  if (event == "stop") metrics.stops.push_back(read_stop(json));
  if (event == "refused") metrics.refusals.push_back(read_stop(json));
}

std::filesystem::path file_in(const std::filesystem::path& run_or_file) {
  return files::facts_of(run_or_file / ".") ? metrics_file(run_or_file) : run_or_file;  // of no file can there be a "."
}

/// A step or a start: what moves the run's position.
struct FieldMove {
  int incarnation = 0;
  std::int64_t back_to = 0;  ///< steps after this one were lost or are done again
  const StepRecord* step = nullptr;
};

std::vector<FieldMove> moves_in(const Metrics& metrics) {
  std::vector<FieldMove> moves;
  for (const auto& start : metrics.starts) moves.push_back({start.incarnation, start.step, nullptr});
  for (const auto& step : metrics.steps) moves.push_back({step.incarnation, step.step - 1, &step});
  // Stable: within an incarnation the start, then its steps in order. An old one that wrote late comes before who replaced it.
  std::ranges::stable_sort(moves, {}, &FieldMove::incarnation);
  return moves;
}

}  // namespace

Metrics read_metrics(const std::filesystem::path& run_or_file) {
  const auto path = file_in(run_or_file);
  const auto content = files::read_text(path, largest_metrics);
  Metrics metrics;
  std::string_view rest = content;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const auto end = rest.find('\n');
    if (end == rest.npos) {
      metrics.torn_bytes = std::ssize(rest);
      break;
    }
    const auto where = text(path.string(), ":", number);
    FLOTILLA_REQUIRE(static_cast<std::int64_t>(end) <= longest_line.count, ErrorKind::bad_input, where, ": the line is longer than ",
                     longest_line);
    add_line(metrics, Json::parse(rest.substr(0, end), where));
    rest.remove_prefix(end + 1);
  }
  return metrics;
}

std::vector<StepRecord> effective_steps(const Metrics& metrics) {
  std::vector<StepRecord> steps;
  for (const auto& move : moves_in(metrics)) {
    while (!steps.empty() && steps.back().step > move.back_to) steps.pop_back();
    if (move.step != nullptr) steps.push_back(*move.step);
  }
  return steps;
}

std::vector<EvaluationRecord> effective_evaluations(const Metrics& metrics) {
  std::map<std::int64_t, EvaluationRecord> by_step;
  for (const auto& evaluation : metrics.evaluations) by_step[evaluation.step] = evaluation;
  std::vector<EvaluationRecord> evaluations;
  for (auto& [step, evaluation] : by_step) evaluations.push_back(std::move(evaluation));
  return evaluations;
}

}  // namespace flotilla::journal
