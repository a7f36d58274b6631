#include "flotilla/journal/history.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/journal/outcome.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "incarnation.hpp"
#include "publish.hpp"

namespace flotilla::journal {
namespace {

using Histories = std::map<int, IncarnationHistory>;

IncarnationHistory& of(Histories& all, int number) {
  auto& history = all[number];
  history.number = number;
  return history;
}

void add_starts(Histories& all, const Metrics& metrics) {
  for (const auto& start : metrics.starts) {
    auto& h = of(all, start.incarnation);
    h.first_step = h.last_step = start.step;
    h.plan = start.plan;
    h.changed = start.changed;
    h.host = start.host;
    h.ranks = start.ranks;
    h.ended = std::max(h.ended, start.time);
    if (h.launched == 0) h.launched = start.time;
  }
  for (const auto& correction : metrics.corrections) of(all, correction.incarnation).corrections.push_back(correction);
  for (const auto& change : metrics.plans) of(all, change.incarnation).plan_changes.push_back(change);
  for (const auto& record : metrics.devices) {
    auto& h = of(all, record.incarnation);
    h.devices = record.devices;
    h.origin = record.origin;
    if (record.launched > 0) h.launched = record.launched;
  }
}

template <class History>
void note_loss(const StepRecord& step, History& history) {
  if (step.empty()) return;
  if (!history.first_loss) history.first_loss = step.loss;
  history.last_loss = step.loss;
}

void add_steps(Histories& all, const Metrics& metrics) {
  for (const auto& step : metrics.steps) {
    auto& h = of(all, step.incarnation);
    if (h.first_step_done == 0) h.first_step_done = step.time;
    note_loss(step, h);
    h.last_step = std::max(h.last_step, step.step);
    h.ended = std::max(h.ended, step.time);
  }
  for (const auto& save : metrics.checkpoints) {
    auto& h = of(all, save.incarnation);
    if (save.in_run_directory()) ++h.checkpoints;
    h.checkpoint_seconds += save.pause();
    h.ended = std::max(h.ended, save.time);
  }
}

/// A step is lost when a later incarnation began before it.
void count_lost(Histories& all, const Metrics& metrics) {
  for (const auto& step : metrics.steps) {
    const bool lost = std::ranges::any_of(
        metrics.starts, [&](const StartRecord& start) { return start.incarnation > step.incarnation && start.step < step.step; });
    if (!lost) continue;
    auto& h = of(all, step.incarnation);
    ++h.lost_steps;
    h.lost_seconds += step.step_seconds;
  }
}

/// What the newest checkpoint lacks, of the incarnation that made the last step.
void count_unsaved(Histories& all, const Metrics& metrics) {
  const auto steps = effective_steps(metrics);
  if (steps.empty()) return;
  const auto saved = newest_checkpoint(metrics);
  of(all, steps.back().incarnation).unsaved_steps = std::max<std::int64_t>(0, steps.back().step - (saved ? saved->step : 0));
}

/// What its ranks said last; a stop in the metrics says it, too.
void add_end(const std::filesystem::path& run, const Metrics& metrics, IncarnationHistory& h) {
  for (const auto& stop : metrics.stops)
    if (stop.incarnation == h.number) {
      h.exit_code = stop.exit_code;
      h.reason = stop.reason;
      h.ended = std::max(h.ended, stop.time);
    }
  const auto outcome = merge(read_outcomes(run, h.number));
  if (!outcome) return;
  h.exit_code = outcome->exit_code;
  h.reason = outcome->reason;
  h.ended = std::max(h.ended, outcome->time);
}

void add_claim(const std::filesystem::path& run, IncarnationHistory& h, int newest) {
  const auto claim = read_claim(run, h.number);
  if (!claim || !claim->readable) return;
  h.job = claim->job;
  if (h.host.empty()) h.host = claim->process.host;
  if (h.launched == 0) h.launched = claim->started;
  h.ended = std::max({h.ended, claim->released, claim->started});
  if (h.exit_code || h.number != newest) return;
  const double age_limit = LockOptions{}.stale_after.value;
  h.running = judge(*claim, file_system_clock(run), {age_limit}) == Standing::held;
  // Killed while nobody wrote a line: it lived as long as its heartbeat.
  h.ended = std::max(h.ended, claim->heartbeat);
}

}  // namespace

std::optional<double> IncarnationHistory::seconds_to_first_step() const {
  if (first_step_done <= 0 || launched <= 0 || first_step_done < launched) return std::nullopt;
  return first_step_done - launched;
}

int IncarnationHistory::hosts() const {
  int sum = 0;
  for (const auto& group : devices) sum += group.hosts;
  return sum;
}

std::vector<IncarnationHistory> read_history(const std::filesystem::path& run) {
  files::require_there(run, "a run directory");
  const auto numbers = incarnation_numbers(run);
  const int newest = numbers.empty() ? 0 : numbers.back();
  const bool has_metrics = files::facts_of(metrics_file(run)).has_value();
  FLOTILLA_REQUIRE(newest > 0 || has_metrics, ErrorKind::bad_input, run.string(),
                   ": no run was ever started here; expected a run directory");
  Metrics metrics;
  if (has_metrics) metrics = read_metrics(run);
  Histories all;
  for (const int n : numbers)
    if (std::ranges::count(metrics.refusals, n, &StopRecord::incarnation) == 0) of(all, n);
  add_starts(all, metrics);
  add_steps(all, metrics);
  count_lost(all, metrics);
  count_unsaved(all, metrics);
  std::vector<IncarnationHistory> histories;
  for (auto& [number, history] : all) {
    add_end(run, metrics, history);
    add_claim(run, history, newest);
    if (history.running) history.unsaved_steps = 0;  // it will save them
    histories.push_back(std::move(history));
  }
  return histories;
}

std::vector<PhaseHistory> phases_in(const Metrics& metrics) {
  std::vector<PhaseHistory> phases;
  for (const auto& record : metrics.phases) {
    while (!phases.empty() && phases.back().first_step >= record.step) phases.pop_back();  // a restart went back
    if (!phases.empty() && phases.back().phase == record.phase) continue;                  // or on
    phases.push_back({record.phase, record.length, record.global_batch, record.step, record.step, 0, {}, {}});
  }
  for (const auto& step : effective_steps(metrics)) {
    const auto after = std::ranges::lower_bound(phases, step.step, {}, &PhaseHistory::first_step);
    if (after == phases.begin()) continue;
    auto& phase = *std::prev(after);
    note_loss(step, phase);
    phase.last_step = step.step;
    phase.seconds += step.step_seconds;
  }
  return phases;
}

namespace {

template <class Record>
std::vector<SourceHistory> sources_of(const std::vector<Record>& records) {
  std::vector<SourceHistory> sources;
  for (const auto& record : records)
    for (const auto& one : record.sources) {
      auto found = std::ranges::find(sources, one.source, &SourceHistory::source);
      if (found == sources.end()) found = sources.insert(found, {one.source, record.step, record.step, one.loss, one.loss});
      found->last_step = record.step;
      found->last_loss = one.loss;
    }
  return sources;
}

}  // namespace

std::vector<SourceHistory> sources_in(const std::vector<StepRecord>& steps) { return sources_of(steps); }
std::vector<SourceHistory> sources_in(const std::vector<EvaluationRecord>& evaluations) { return sources_of(evaluations); }

std::optional<CheckpointRecord> newest_checkpoint(const Metrics& metrics) {
  std::optional<CheckpointRecord> newest;
  for (const auto& save : metrics.checkpoints) {
    const bool counts_still = std::ranges::none_of(
        metrics.starts, [&](const StartRecord& start) { return start.incarnation > save.incarnation && start.step < save.step; });
    if (counts_still && (!newest || newest->step < save.step || (newest->step == save.step && save.in_run_directory()))) newest = save;
  }
  return newest;
}

std::optional<CheckpointRecord> undrained(const Metrics& metrics) {
  const auto newest = newest_checkpoint(metrics);
  return newest && !newest->in_run_directory() ? newest : std::nullopt;
}

std::string undrained_in_words(const CheckpointRecord& record) {
  return text("step ", record.step, " is on ", record.hosts, " only, in ", record.local);
}

std::int64_t last_saved_step(const std::filesystem::path& run) {
  std::int64_t last = 0;
  if (files::facts_of(metrics_file(run))) {
    const auto newest = newest_checkpoint(read_metrics(run));
    return newest ? newest->step : 0;
  }
  for (const int number : incarnation_numbers(run))
    if (const auto outcome = merge(read_outcomes(run, number)))
      if (outcome->exit_code == ExitCode::requeue || outcome->exit_code == ExitCode::done) last = std::max(last, outcome->step);
  return last;
}

}  // namespace flotilla::journal
