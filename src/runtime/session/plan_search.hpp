#pragma once
#include <functional>
#include <future>
#include <optional>
#include <stop_token>
#include <vector>

#include "flotilla/monitor/self_check.hpp"
#include "flotilla/session/segment_result.hpp"

namespace flotilla::session {

/// Plans again, on a thread, which a stop request ends. Ranks are the active ranks'.
using Replanner = std::function<std::optional<NextPlan>(std::vector<monitor::Slowness>, std::int64_t steps_left, std::stop_token)>;

/// A search for a better plan beside the steps, one at a time; ends with this.
class PlanSearch {
 public:
  /// Empty: nobody plans again, and begin() does nothing.
  explicit PlanSearch(Replanner replanner) : replanner_{std::move(replanner)} {}
  PlanSearch(const PlanSearch&) = delete;
  PlanSearch& operator=(const PlanSearch&) = delete;
  ~PlanSearch() { end(); }

  /// Unless one is under way.
  void begin(std::vector<monitor::Slowness> slow, std::int64_t steps_left);
  bool under_way() const { return answer_.valid(); }
  /// What was found, once, when it is over; nothing before. Does not wait.
  std::optional<NextPlan> answer();
  /// Asks it to stop and waits until it has.
  void end();

 private:
  Replanner replanner_;
  std::stop_source stop_;
  std::future<std::optional<NextPlan>> answer_;
};

}  // namespace flotilla::session
