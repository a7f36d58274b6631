#include <algorithm>

#include "flotilla/program/program.hpp"

namespace flotilla::program {

std::vector<Bytes> arena_breakdown(const RankClass& c) {
  std::vector<const Buffer*> order;
  for (const auto& b : c.buffers) order.push_back(&b);
  std::stable_sort(order.begin(), order.end(), [](const Buffer* x, const Buffer* y) { return x->offset < y->offset; });
  std::vector<Bytes> breakdown(category_count);
  Bytes end{};
  for (const Buffer* b : order) {
    const Bytes top = b->offset + b->copies * b->stride;
    if (top > end) {
      breakdown[static_cast<std::size_t>(b->category)] += top - end;
      end = top;
    }
  }
  return breakdown;
}

}  // namespace flotilla::program
