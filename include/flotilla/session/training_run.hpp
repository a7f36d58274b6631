#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "flotilla/monitor/self_check.hpp"
#include "flotilla/session/active_plan.hpp"
#include "flotilla/session/incarnation.hpp"
#include "flotilla/session/incarnation_totals.hpp"
#include "flotilla/session/segment_result.hpp"

namespace flotilla::session {

/// What the program around a run decides and says.
struct RunHooks {
  /// Makes a plan that somebody asks for this run's instead of the active one, bound to its ranks. `source` is for errors. Throws Error
  /// where that cannot be. On the first rank of the active ranks.
  std::function<plan::Plan(plan::Plan, const ChosenPlan& active, const std::string& source)> bind;
  /// Looks for a better plan where devices or links (ranks are the active ranks') have become slow, on a thread beside the steps, which a
  /// stop request ends. On the first rank of the active ranks; empty: nobody plans again.
  std::function<std::optional<NextPlan>(const ActivePlan&, std::span<const monitor::Slowness>, std::int64_t steps_left,
                                        const std::stop_token&)>
      plan_again;
  /// Says what is going to run, once, before the first step. On the first rank of the active ranks.
  std::function<void(const ActivePlan&, std::int64_t first_step)> introduce;
};

/// One incarnation of a run, from the plan that it starts with to its last checkpoint: segment after segment, each under a plan of its own,
/// with a change of plan in place between two of them. docs/design/session.md.
class TrainingRun {
 public:
  /// Collective over the world. `resumes`: from the newest checkpoint in the run directory. `ends`: of the job's time, on the clock of
  /// flotilla::now(). What `place` refers to and the allocation outlive the run.
  TrainingRun(const RunContext& place, Incarnation&, RunHooks, bool resumes, std::optional<Seconds> ends);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Trains, under this plan at first. Collective; how it ended, the same on every rank. Throws comm::AgreedError where all ranks agree
  /// that it cannot begin.
  SegmentResult run(const ChosenPlan&);
  /// What it has done; empty on ranks that do not write the metrics.
  const IncarnationTotals& totals() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::session
