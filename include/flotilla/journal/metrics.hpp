#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/exit_code.hpp"

/// RUN/metrics.jsonl: a JSON object a line. Member names are the keys in the file.
namespace flotilla::journal {

/// The loss on tokens of one source of a mixture.
struct SourceLoss {
  std::string source = {};
  double loss = 0;  ///< mean over the tokens that count
  bool operator==(const SourceLoss&) const = default;
};

/// The same where the number of tokens counts.
struct SourceShare {
  std::string source = {};
  double loss = 0;          ///< mean over those
  std::int64_t tokens = 0;  ///< that count
  bool operator==(const SourceShare&) const = default;
};

/// A completed optimizer step. Its line has no "event" key.
struct StepRecord {
  std::int64_t step = 0;  ///< from 1: steps completed
  double loss = 0;        ///< mean over the global batch's tokens that count; the exact value is kept (shortest decimal that reads back)
  double tokens_per_second = 0;  ///< all of them
  double step_seconds = 0;
  double share_of_peak = 0;  ///< model FLOPs over (step time x sum of the devices' peaks), 0 … 1
  double learning_rate = 0;
  double gradient_norm = 0;  ///< before clipping
  double eta_seconds = 0;
  double time = 0;                                  ///< seconds since 1970; 0: filled in when written
  int incarnation = 0;                              ///< filled in when written
  std::optional<std::int64_t> counted_tokens = {};  ///< whose losses are in `loss`; none: all of the global batch
  std::string digest = {};                          ///< train::StepResult's, 16 hexadecimal digits; empty in what earlier versions wrote
  std::vector<SourceShare> sources = {};            ///< of a mixture, those that the step trained on

  bool empty() const { return counted_tokens == 0; }  ///< no token counts: the loss is not a number, and nothing was updated
};

/// {"event": "start"}: every start and restart.
struct StartRecord {
  std::int64_t step = 0;  ///< steps completed before: 0, or the checkpoint's
  int ranks = 0;
  std::string plan = {};     ///< plan::summary
  std::string host = {};     ///< of rank 0
  std::string version = {};  ///< of Flotilla
  double time = 0;
  int incarnation = 0;
  std::string changed = {};  ///< options that alter the run, since the checkpoint: "learning-rate 0.001 -> 0.0005"; empty: none
};

/// Devices of one type in one zone.
struct InventoryEntry {
  std::string device_type = {}, zone = {};
  int devices = 0;
  int hosts = 0;  ///< that they are on; a host with several types counts for the first alone
  bool operator==(const InventoryEntry&) const = default;
};

/// {"event": "devices"}: what this incarnation works on.
struct DevicesRecord {
  std::int64_t step = 0;    ///< completed before
  double launched = 0;      ///< when rank 0's process began, seconds since 1970
  std::string origin = {};  ///< where the plan comes from
  std::vector<InventoryEntry> devices = {};
  double time = 0;
  int incarnation = 0;
};

/// {"event": "started"}: the first step of this incarnation is done; what was before it, on the rank that writes.
struct StartedRecord {
  std::int64_t step = 0;
  double opening_seconds = 0;    ///< from when rank 0 has the run directory: data and checkpoints
  double measuring_seconds = 0;  ///< or reading the profile
  double planning_seconds = 0;
  double connecting_seconds = 0;  ///< groups, memory
  double loading_seconds = 0;     ///< the training state
  double first_step_seconds = 0;
  double time = 0;
  int incarnation = 0;
};

/// {"event": "evaluation"}
struct EvaluationRecord {
  std::int64_t step = 0;
  double loss = 0;  ///< of a mixture: the sources' mean by their weights
  std::int64_t sequences = 0;
  double seconds = 0;
  double time = 0;
  int incarnation = 0;
  std::vector<SourceLoss> sources = {};  ///< of a mixture
};

/// What a run has drawn from one source of a mixture.
struct SourceUse {
  std::string source = {};
  double weight = 1;
  std::int64_t sequences = 0;  ///< of an epoch
  std::int64_t drawn = 0;      ///< sequences since the run began
  bool operator==(const SourceUse&) const = default;
};

/// {"event": "data"}: of a mixture, at every start and with every checkpoint.
struct DataRecord {
  std::int64_t step = 0;
  std::vector<SourceUse> sources = {};
  double time = 0;
  int incarnation = 0;
};

/// {"event": "checkpoint"}: committed, in the run directory or on the nodes' own storage.
struct CheckpointRecord {
  std::int64_t step = 0;
  std::int64_t bytes = 0;
  double seconds = 0;
  double time = 0;
  int incarnation = 0;
  std::optional<double> pause_seconds = {};  ///< of an asynchronous save, or one drained: how long training stood still
  std::string local = {};                    ///< folder on the nodes that hold it, or empty: it is in the run directory
  std::string hosts = {};                    ///< those nodes, where it is local

  double pause() const { return pause_seconds.value_or(seconds); }
  bool in_run_directory() const { return local.empty(); }
};

/// {"event": "forecast"}: the first iterations held against the forecast, once.
struct ForecastRecord {
  std::int64_t step = 0;
  double forecast_seconds = 0;
  double relative_error = 0;  ///< the forecast's error bar
  double measured_seconds = 0;
  std::int64_t iterations = 0;  ///< that the measured median is of
  bool inside_error_bar = false;
  double time = 0;
  int incarnation = 0;
};

/// A figure of the profile that the first iterations proved wrong.
struct WrongFigure {
  std::string subject = {};                          ///< the device type, or the links: "messages within a host"
  std::string figure = {};                           ///< operation of a device type; "messages" or "sums"
  int tensor_parallel = 1, sequences = 1;            ///< of an operation
  double profile_seconds = 0, measured_seconds = 0;  ///< of one; the median of the iterations
  double lower_quartile = 1, upper_quartile = 1;     ///< of measured / profile
  double relative_error = 0;                         ///< the error bar that it exceeds
  bool inferred = false;                             ///< it did not run here: as the type's others
  double factor() const { return profile_seconds > 0 ? measured_seconds / profile_seconds : 1; }
  bool operator==(const WrongFigure&) const = default;
};

/// {"event": "correction"}: the first iterations proved figures of the profile wrong.
struct CorrectionRecord {
  std::int64_t step = 0;
  std::int64_t iterations = 0;   ///< that proved it
  double forecast_seconds = 0;   ///< of an iteration, by the profile as it was
  double corrected_seconds = 0;  ///< by the profile with the measured figures
  double measured_seconds = 0;
  std::string file = {};  ///< the corrected profile in the run directory; empty: its forecast is no nearer, so it is not used
  std::vector<WrongFigure> figures = {};
  double time = 0;
  int incarnation = 0;
  bool used() const { return !file.empty(); }
};

/// {"event": "plan"}: another plan goes on after `step`, or was refused.
struct PlanRecord {
  std::int64_t step = 0;
  std::string plan = {};     ///< plan::summary of the plan that goes on
  std::string reason = {};   ///< of the change
  std::string refused = {};  ///< why the plan stays as it was; empty: it changed
  std::int64_t moved_bytes = 0;
  double pause_seconds = 0;
  double time = 0;
  int incarnation = 0;
};

/// {"event": "phase"}: begins after `step`, or goes on there after a start.
struct PhaseRecord {
  std::int64_t step = 0;
  std::string phase = {};
  int length = 0;        ///< tokens of a sequence
  int global_batch = 0;  ///< sequences
  double time = 0;
  int incarnation = 0;
};

/// {"event": "slow"}: a device or a link has become slow, or is so no longer.
struct SlowRecord {
  std::int64_t step = 0;
  int rank = 0;
  std::string host = {};
  int stage = 0;
  int peer = -1;            ///< the other end, where it is the link from `rank` to it
  bool over = false;        ///< it is slow no longer
  double factor = 1;        ///< time over what it was expected to take
  double cost_seconds = 0;  ///< of an iteration, at most
  std::string group = {};   ///< where it is the links between a group's members, of which `rank` is the first: "data group of ..."
  std::string link = {};    ///< which of them, where that was found: "n2", all of that host's, or "n0 and n1"
  double time = 0;
  int incarnation = 0;
};

/// {"event": "stop"}: the last line of an incarnation that could still speak.
struct StopRecord {
  std::int64_t step = 0;
  ExitCode exit_code = ExitCode::done;
  std::string reason = {};
  double time = 0;
  int incarnation = 0;
  bool refused = false;  ///< {"event": "refused"}: the start ended before it trained, and is no part of the run's history
};

/// Appends to RUN/metrics.jsonl, one write() a line. Rank 0 alone has one. Thread-safe. After opening nothing throws: metrics never stop
/// training. The first line that cannot be written (disk full) is reported on standard error, once; lines then wait, 10,000 at most, and
/// are written in their order with the next one for which there is room. What is lost beyond is counted.
class MetricsWriter {
 public:
  /// Makes the file or continues it: what a killed writer left after the last line end is cut off. Throws Error{unavailable} when it
  /// cannot be opened for writing.
  MetricsWriter(const std::filesystem::path& run, int incarnation);
  MetricsWriter(MetricsWriter&&) noexcept;
  MetricsWriter& operator=(MetricsWriter&&) noexcept;
  ~MetricsWriter();

  void write(const StepRecord&) noexcept;
  void write(const StartRecord&) noexcept;
  void write(const DevicesRecord&) noexcept;
  void write(const StartedRecord&) noexcept;
  void write(const EvaluationRecord&) noexcept;
  void write(const DataRecord&) noexcept;
  void write(const CheckpointRecord&) noexcept;
  void write(const ForecastRecord&) noexcept;
  void write(const CorrectionRecord&) noexcept;
  void write(const PlanRecord&) noexcept;
  void write(const PhaseRecord&) noexcept;
  void write(const SlowRecord&) noexcept;
  void write(const StopRecord&) noexcept;

  /// Bytes of a torn last line that opening removed.
  std::int64_t repaired_bytes() const;
  /// Lines that found no room to wait.
  std::int64_t lost_lines() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Everything in a metrics file, in its order.
struct Metrics {
  std::vector<StepRecord> steps;
  std::vector<StartRecord> starts;
  std::vector<DevicesRecord> devices;
  std::vector<StartedRecord> started;
  std::vector<EvaluationRecord> evaluations;
  std::vector<DataRecord> data;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<ForecastRecord> forecasts;
  std::vector<CorrectionRecord> corrections;
  std::vector<PlanRecord> plans;
  std::vector<PhaseRecord> phases;
  std::vector<SlowRecord> slow;
  std::vector<StopRecord> stops;
  std::vector<StopRecord> refusals;
  std::int64_t torn_bytes = 0;  ///< after the last line end: a killed writer's, ignored
};

/// Reads RUN/metrics.jsonl or the file itself. Throws Error{bad_input} with file:line for anything but a torn last line; unknown keys and
/// events are passed over (a later version's).
Metrics read_metrics(const std::filesystem::path& run_or_file);

/// The run's history without what was lost and done again: a step that a later incarnation repeated counts in its last version, steps
/// after the point a restart went back to are dropped. Steps increase strictly.
std::vector<StepRecord> effective_steps(const Metrics&);
/// The newest checkpoint that counts still, wherever it is: no later start went back to before it.
std::optional<CheckpointRecord> newest_checkpoint(const Metrics&);
/// Evaluations by step; one that was repeated counts in its last version.
std::vector<EvaluationRecord> effective_evaluations(const Metrics&);

}  // namespace flotilla::journal
