#include "plan_search.hpp"

#include <chrono>

namespace flotilla::session {

void PlanSearch::begin(std::vector<monitor::Slowness> slow, std::int64_t steps_left) {
  if (!replanner_ || under_way()) return;
  stop_ = {};
  answer_ = std::async(std::launch::async, replanner_, std::move(slow), steps_left, stop_.get_token());
}

std::optional<NextPlan> PlanSearch::answer() {
  if (!under_way() || answer_.wait_for(std::chrono::seconds{0}) != std::future_status::ready) return std::nullopt;
  return answer_.get();
}

void PlanSearch::end() {
  stop_.request_stop();
  if (under_way()) answer_.wait();
}

}  // namespace flotilla::session
