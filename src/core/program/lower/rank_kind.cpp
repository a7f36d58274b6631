#include "rank_kind.hpp"

#include <algorithm>

namespace flotilla::program {

Slots slots_of(const ClassKey& kind) {
  Slots slots;
  int group = 1;
  if (kind.tensor_parallel > 1) slots.tensor = group++;
  const auto add = [&](const Summing& summing, std::vector<int>& list) {
    if (summing.members < 2) return;
    for (std::size_t g = 0; g < std::max<std::size_t>(1, summing.groups.size()); ++g) list.push_back(group++);
  };
  add(kind.data, slots.data);
  add(kind.tied, slots.tied);
  return slots;
}

}  // namespace flotilla::program
