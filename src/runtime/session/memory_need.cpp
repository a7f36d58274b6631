#include "memory_need.hpp"

#include <algorithm>

#include "flotilla/base/text.hpp"

namespace flotilla::session {

Bytes memory_limit(Bytes given, Bytes device) {
  if (given.count <= 0) return device;
  return device.count > 0 ? std::min(given, device) : given;
}

MemoryNeed tighter(const MemoryNeed& a, const MemoryNeed& b) {
  if (a.limit <= 0 || b.limit <= 0) return a.limit > 0 ? a : b;
  return a.peak - a.limit >= b.peak - b.limit ? a : b;
}

Readiness readiness_of(std::span<const MemoryNeed> by_rank, bool plan_is_given, const std::function<std::string(Rank)>& name) {
  using Verdict = Readiness::Verdict;
  if (std::ranges::any_of(by_rank, &MemoryNeed::abandoned)) return {Verdict::refuse, "the run ends"};
  const auto lacks = [](const MemoryNeed& need) { return need.limit > 0 && need.peak > need.limit; };
  const auto first = std::ranges::find_if(by_rank, lacks);
  if (first == by_rank.end()) return {};
  const Rank rank{static_cast<int>(first - by_rank.begin())};
  const auto why = text(name(rank), " needs ", Bytes{first->peak}, " for both plans and may use ", Bytes{first->limit});
  if (!plan_is_given) return {Verdict::save, why};
  return {Verdict::refuse, why + "; a restart would take --plan again, so give it the new plan"};
}

}  // namespace flotilla::session
