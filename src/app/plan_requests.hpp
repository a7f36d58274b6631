#pragma once
#include <filesystem>
#include <optional>

#include "app/ending.hpp"
#include "app/job.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::app {

/// The run's side of `flotilla control`, on one rank: looks for a request between steps, a few times a second at most, and takes it away.
class PlanRequests {
 public:
  /// `profile` is of the job's `ranks`, `at_work` the plan that a request would replace.
  PlanRequests(const Job&, const std::filesystem::path& run, cluster::Profile profile, int ranks, plan::Plan at_work);
  /// A wish, or one that was refused at once (NextPlan::refused says why). Throws nothing.
  std::optional<NextPlan> look();

 private:
  NextPlan read();

  const Job& job_;
  const std::filesystem::path file_;
  const cluster::Profile profile_;
  const int ranks_;
  const plan::Plan at_work_;
  Seconds last_look_;
};

}  // namespace flotilla::app
