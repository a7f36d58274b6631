#include "replan.hpp"

#include <algorithm>

#include "explain.hpp"
#include "flotilla/base/error.hpp"
#include "moving/moved_bytes.hpp"

namespace flotilla::search {
namespace {

/// Of a plan that is better than the one chosen.
std::string why_not_taken(const RankedPlan& better, const RankedPlan& chosen) {
  return text(percent(1 - better.value / chosen.value), " better, but ", better.moved, " would move instead of ", chosen.moved);
}

}  // namespace

void prefer_what_moves_least(PlanAnswer& answer, const PlanRequest& request) {
  if (!request.previous || !answer.best) return;
  std::vector<RankedPlan> all{*answer.best};
  all.insert(all.end(), answer.alternatives.begin(), answer.alternatives.end());
  for (RankedPlan& one : all) one.moved = moved_bytes(*request.previous, one.plan);
  const auto chosen = choose_near_best(all, all.front().value, request.near_best).value_or(0);
  for (std::size_t i = 0; i < chosen; ++i) all[i].reason = why_not_taken(all[i], all[chosen]);
  all[chosen].reason.clear();
  answer.best = all[chosen];
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(chosen));
  answer.alternatives = std::move(all);
}

}  // namespace flotilla::search
