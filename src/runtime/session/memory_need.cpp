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

namespace {

/// The first rank that needs more than it may use, and how much.
std::string lack_of(std::span<const MemoryNeed> by_rank, const std::string& what_for, const std::function<std::string(Rank)>& name) {
  const auto first = std::ranges::find_if(by_rank, [](const MemoryNeed& need) { return need.limit > 0 && need.peak > need.limit; });
  if (first == by_rank.end()) return {};
  const Rank rank{static_cast<int>(first - by_rank.begin())};
  return text(name(rank), " needs ", Bytes{first->peak}, " ", what_for, " and may use ", Bytes{first->limit});
}

}  // namespace

std::string no_room_for_copies(std::span<const MemoryNeed> by_rank, const std::function<std::string(Rank)>& name) {
  return lack_of(by_rank, "with a copy of what it saves", name);
}

Readiness readiness_of(std::span<const MemoryNeed> by_rank, bool plan_is_given, const std::function<std::string(Rank)>& name) {
  using Verdict = Readiness::Verdict;
  if (std::ranges::any_of(by_rank, &MemoryNeed::abandoned)) return {Verdict::refuse, "the run ends"};
  const auto why = lack_of(by_rank, "for both plans", name);
  if (why.empty()) return {};
  if (!plan_is_given) return {Verdict::save, why};
  return {Verdict::refuse, why + "; a restart would take --plan again, so give it the new plan"};
}

}  // namespace flotilla::session
