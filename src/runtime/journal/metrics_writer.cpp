#include "append_file.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "process.hpp"

namespace flotilla::journal {
namespace {

using files::JsonLine;

JsonLine event(const char* name, std::int64_t step) {
  JsonLine line;
  line.add("event", name).add("step", step);
  return line;
}

/// A JSON list with an object for each item; `fill(line, item)` gives its members.
template <class Items, class Fill>
std::string list_of(const Items& items, const Fill& fill) {
  std::string list;
  for (const auto& item : items) {
    JsonLine line;
    fill(line, item);
    list += (list.empty() ? "" : ", ") + line.text();
  }
  return "[" + list + "]";
}

JsonLine members(const StepRecord& r) {
  JsonLine line;
  line.add("step", r.step).add("loss", r.loss).add("tokens_per_second", r.tokens_per_second).add("step_seconds", r.step_seconds);
  line.add("share_of_peak", r.share_of_peak).add("learning_rate", r.learning_rate).add("gradient_norm", r.gradient_norm);
  line.add("eta_seconds", r.eta_seconds);
  if (r.counted_tokens) line.add("counted_tokens", *r.counted_tokens);
  if (!r.digest.empty()) line.add("digest", r.digest);
  if (r.sources.empty()) return line;
  line.add_json("sources", list_of(r.sources, [](JsonLine& one, const auto& s) {
                  one.add("source", s.source).add("loss", s.loss).add("tokens", s.tokens);
                }));
  return line;
}
JsonLine members(const StartRecord& r) {
  auto line = event("start", r.step);
  line.add("ranks", r.ranks).add("plan", r.plan).add("host", r.host).add("version", r.version);
  if (!r.changed.empty()) line.add("changed", r.changed);
  return line;
}
JsonLine members(const DevicesRecord& r) {
  const auto groups = list_of(r.devices, [](JsonLine& line, const auto& g) {
    line.add("device_type", g.device_type).add("zone", g.zone).add("devices", g.devices).add("hosts", g.hosts);
  });
  auto line = event("devices", r.step);
  line.add("launched", r.launched).add("origin", r.origin).add_json("groups", groups);
  return line;
}
JsonLine members(const StartedRecord& r) {
  auto line = event("started", r.step);
  line.add("opening_seconds", r.opening_seconds).add("measuring_seconds", r.measuring_seconds);
  line.add("planning_seconds", r.planning_seconds).add("connecting_seconds", r.connecting_seconds);
  line.add("loading_seconds", r.loading_seconds).add("first_step_seconds", r.first_step_seconds);
  return line;
}
JsonLine members(const EvaluationRecord& r) {
  auto line = event("evaluation", r.step);
  line.add("loss", r.loss).add("sequences", r.sequences).add("seconds", r.seconds);
  if (r.sources.empty()) return line;
  line.add_json("sources", list_of(r.sources, [](JsonLine& one, const auto& s) { one.add("source", s.source).add("loss", s.loss); }));
  return line;
}
JsonLine members(const DataRecord& r) {
  const auto sources = list_of(r.sources, [](JsonLine& line, const auto& s) {
    line.add("source", s.source).add("weight", s.weight).add("sequences", s.sequences).add("drawn", s.drawn);
  });
  auto line = event("data", r.step);
  line.add_json("sources", sources);
  return line;
}
JsonLine members(const CheckpointRecord& r) {
  auto line = event("checkpoint", r.step);
  line.add("bytes", r.bytes).add("seconds", r.seconds);
  if (r.pause_seconds) line.add("pause_seconds", *r.pause_seconds);
  if (!r.in_run_directory()) line.add("local", r.local).add("hosts", r.hosts);
  return line;
}
JsonLine members(const ForecastRecord& r) {
  auto line = event("forecast", r.step);
  line.add("forecast_seconds", r.forecast_seconds).add("relative_error", r.relative_error);
  line.add("measured_seconds", r.measured_seconds).add("iterations", r.iterations).add("inside_error_bar", r.inside_error_bar);
  return line;
}
JsonLine members(const CorrectionRecord& r) {
  const auto figures = list_of(r.figures, [](JsonLine& line, const auto& f) {
    line.add("subject", f.subject).add("figure", f.figure).add("tensor_parallel", f.tensor_parallel).add("sequences", f.sequences);
    line.add("profile_seconds", f.profile_seconds).add("measured_seconds", f.measured_seconds);
    line.add("lower_quartile", f.lower_quartile).add("upper_quartile", f.upper_quartile);
    line.add("relative_error", f.relative_error).add("inferred", f.inferred);
  });
  auto line = event("correction", r.step);
  line.add("iterations", r.iterations).add("forecast_seconds", r.forecast_seconds).add("corrected_seconds", r.corrected_seconds);
  line.add("measured_seconds", r.measured_seconds).add("file", r.file).add_json("figures", figures);
  return line;
}
JsonLine members(const PlanRecord& r) {
  auto line = event("plan", r.step);
  line.add("plan", r.plan).add("reason", r.reason).add("refused", r.refused);
  line.add("moved_bytes", r.moved_bytes).add("pause_seconds", r.pause_seconds);
  return line;
}
JsonLine members(const PhaseRecord& r) {
  auto line = event("phase", r.step);
  line.add("phase", r.phase).add("length", r.length).add("global_batch", r.global_batch);
  return line;
}
JsonLine members(const SlowRecord& r) {
  auto line = event("slow", r.step);
  line.add("rank", r.rank).add("host", r.host).add("stage", r.stage).add("peer", r.peer).add("over", r.over);
  line.add("factor", r.factor).add("cost_seconds", r.cost_seconds).add("group", r.group).add("link", r.link);
  return line;
}
JsonLine members(const StopRecord& r) {
  auto line = event(r.refused ? "refused" : "stop", r.step);
  line.add("exit_code", static_cast<int>(r.exit_code)).add("reason", r.reason);
  return line;
}

}  // namespace

struct MetricsWriter::State {
  PatientAppender file;
  int incarnation = 0;

  template <class Record>
  void write(const Record& record) noexcept {
    try {
      auto line = members(record);
      line.add("time", record.time == 0 ? wall_clock() : record.time).add("incarnation", incarnation);
      file.append(line.text() + "\n");
    } catch (...) {
      file.lose();
    }
  }
};

MetricsWriter::MetricsWriter(const std::filesystem::path& run, int incarnation)
    : state_{new State{{AppendFile{metrics_file(run)}, {metrics_file(run).string(), "line", "lines"}}, incarnation}} {}
MetricsWriter::MetricsWriter(MetricsWriter&&) noexcept = default;
MetricsWriter& MetricsWriter::operator=(MetricsWriter&&) noexcept = default;
MetricsWriter::~MetricsWriter() = default;

void MetricsWriter::write(const StepRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const StartRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const DevicesRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const StartedRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const EvaluationRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const DataRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const CheckpointRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const ForecastRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const CorrectionRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const PlanRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const PhaseRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const SlowRecord& record) noexcept { state_->write(record); }
void MetricsWriter::write(const StopRecord& record) noexcept { state_->write(record); }

std::int64_t MetricsWriter::repaired_bytes() const { return state_->file.repaired_bytes(); }
std::int64_t MetricsWriter::lost_lines() const { return state_->file.lost(); }

}  // namespace flotilla::journal
