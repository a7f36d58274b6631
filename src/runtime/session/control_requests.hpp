#pragma once
#include <filesystem>
#include <functional>
#include <optional>

#include "flotilla/base/units.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/session/segment_result.hpp"

namespace flotilla::session {

/// The run's side of `flotilla control`, on one rank: looks for a request between steps, a few times a second at most, and takes it away.
class PlanRequests {
 public:
  /// `bind` makes a plan from elsewhere this run's, on its ranks, or throws Error; `active` is the plan that a request would replace.
  PlanRequests(const std::filesystem::path& run, std::function<plan::Plan(plan::Plan, const std::string& source)> bind, plan::Plan active);
  /// A wish, or one that was refused at once (NextPlan::refused says why). Throws nothing.
  std::optional<NextPlan> look();

 private:
  NextPlan read();

  const std::filesystem::path file_;
  const std::function<plan::Plan(plan::Plan, const std::string& source)> bind_;
  const plan::Plan at_work_;
  Seconds last_look_;
};

}  // namespace flotilla::session
