#include "segments.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace flotilla::checkpoint {
namespace {

constexpr std::int64_t elements_per_segment = (std::int64_t{1} << 20) / 4;

}  // namespace

Segments::Segments(const std::vector<std::int64_t>& shape)
    : rows_{shape.front()},
      columns_{std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>{})},
      rows_each_{std::max<std::int64_t>(1, elements_per_segment / columns_)} {}

ElementRange Segments::run(std::int64_t segment) const {
  const std::int64_t first = segment * rows_each_, last = std::min(first + rows_each_, rows_);
  return {first * columns_, (last - first) * columns_};
}

std::int64_t Segments::most_elements() const { return std::min(rows_, rows_each_) * columns_; }

}  // namespace flotilla::checkpoint
