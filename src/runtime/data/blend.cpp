#include "blend.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"

namespace flotilla::data {
namespace {

/// The weights' sum as whole numbers: a share of 1e-4 is off by 5e-9 of itself.
constexpr double whole_weight = 0x1p40;

/// round(m a / b), halves up.
std::int64_t part_of(std::int64_t m, std::int64_t a, std::int64_t b) {
  __extension__ using Wide = unsigned __int128;
  const auto numerator = Wide{2} * static_cast<Wide>(m) * static_cast<Wide>(a) + static_cast<Wide>(b);
  return static_cast<std::int64_t>(numerator / (Wide{2} * static_cast<Wide>(b)));
}

std::size_t middle(std::size_t first, std::size_t last) { return first + (last - first) / 2; }

}  // namespace

std::int64_t Blend::Stretch::count(std::int64_t m, std::size_t i) const {
  for (std::size_t first = 0, last = sources.size(); last - first > 1;) {
    const auto half = middle(first, last);
    const auto left = part_of(m, weight(first, half), weight(first, last));
    m = i < half ? left : m - left;
    (i < half ? last : first) = half;
  }
  return m;
}

std::int64_t Blend::Stretch::least(std::int64_t wanted, std::size_t i) const {
  std::int64_t low = 0, high = std::max<std::int64_t>(1, wanted);
  while (high < unlimited / 2 && count(high, i) < wanted) high *= 2;
  if (count(high, i) < wanted) return unlimited;
  while (low + 1 < high) {
    const auto half = low + (high - low) / 2;
    (count(half, i) < wanted ? low : high) = half;
  }
  return high;
}

Blend::Stretch Blend::stretch(std::int64_t begin, std::vector<std::int64_t> before, const std::vector<Part>& parts) const {
  Stretch stretch{begin, std::move(before), {}, {0}};
  double sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (stretch.before[i] >= parts[i].most) continue;
    stretch.sources.push_back(static_cast<int>(i));
    sum += parts[i].weight;
  }
  for (const int source : stretch.sources) {
    const auto weight = std::llround(parts[static_cast<std::size_t>(source)].weight / sum * whole_weight);
    stretch.weights_up_to.push_back(stretch.weights_up_to.back() + std::max(1LL, weight));
  }
  return stretch;
}

void Blend::change(std::int64_t position, std::vector<Part> parts) {
  FLOTILLA_ASSERT(!parts.empty() && position <= end_, parts.size(), " sources at ", position);
  auto before = stretches_.empty() ? std::vector<std::int64_t>(parts.size()) : counts(position);
  FLOTILLA_ASSERT(before.size() == parts.size(), "another number of sources");
  std::erase_if(stretches_, [&](const Stretch& stretch) { return stretch.begin >= position; });
  for (end_ = unlimited;;) {
    const auto next = stretch(position, before, parts);
    if (next.sources.empty()) break;
    stretches_.push_back(next);
    auto length = unlimited;
    for (std::size_t i = 0; i < next.sources.size(); ++i) {
      const auto source = static_cast<std::size_t>(next.sources[i]);
      if (parts[source].most != unlimited) length = std::min(length, next.least(parts[source].most - before[source], i));
    }
    if (length >= unlimited - position) return;
    position += length;
    before = counts(position);
  }
  end_ = position;
}

const Blend::Stretch& Blend::at(std::int64_t position) const {
  const auto after = std::ranges::upper_bound(stretches_, position, {}, &Stretch::begin);
  return *std::prev(after);
}

Blend::Draw Blend::operator()(std::int64_t position) const {
  FLOTILLA_ASSERT(position >= 0 && position < end_, "position ", position, " of ", end_);
  const auto& stretch = at(position);
  auto m = position - stretch.begin;
  std::size_t first = 0;
  for (auto last = stretch.sources.size(); last - first > 1;) {
    const auto half = middle(first, last);
    const auto left = part_of(m, stretch.weight(first, half), stretch.weight(first, last));
    const bool goes_left = part_of(m + 1, stretch.weight(first, half), stretch.weight(first, last)) > left;
    m = goes_left ? left : m - left;
    (goes_left ? last : first) = half;
  }
  const int source = stretch.sources[first];
  return {source, stretch.before[static_cast<std::size_t>(source)] + m};
}

std::vector<std::int64_t> Blend::counts(std::int64_t positions) const {
  if (stretches_.empty()) return {};
  const auto& stretch = at(std::max<std::int64_t>(0, positions - 1));
  auto counts = stretch.before;
  for (std::size_t i = 0; i < stretch.sources.size(); ++i)
    counts[static_cast<std::size_t>(stretch.sources[i])] += stretch.count(positions - stretch.begin, i);
  return counts;
}

}  // namespace flotilla::data
