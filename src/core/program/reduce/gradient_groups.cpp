#include "gradient_groups.hpp"

#include <algorithm>
#include <set>

#include "flotilla/plan/shard_layout.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

/// The member of a group of `degree` that holds a logical unit.
int holder_of(std::int64_t units, int degree, std::int64_t unit) {
  int index = static_cast<int>(unit * degree / units);
  while (model::share(units, degree, index).last <= unit) ++index;
  while (model::share(units, degree, index).first > unit) --index;
  return index;
}

/// Units that a group of sharers holds in common; empty where first >= last.
model::UnitRange common_units(const model::Tensor& tensor, const std::vector<int>& degrees, const GradientGroup& group) {
  model::UnitRange common{0, tensor.units()};
  for (std::size_t r = 0; r < degrees.size(); ++r) {
    const auto held = model::share(tensor.units(), degrees[r], group[r]);
    common = {std::max(common.first, held.first), std::min(common.last, held.last)};
  }
  return common;
}

/// Of a tensor's shard, held by member `index` of `degree`: the blocks that hold the units. Offsets are the shard's.
void add_blocks(const model::Tensor& tensor, int degree, int index, const model::UnitRange& units, std::int64_t offset,
                std::vector<Region>& regions) {
  const auto mine = model::share(tensor.units(), degree, index);
  const auto shard = plan::shard(tensor, degree, index);
  std::int64_t outer = 1, inner = 1;
  for (int d = 0; d < static_cast<int>(shard.shape.size()); ++d) {
    if (d < tensor.dimension) outer *= shard.shape[at(d)];
    if (d > tensor.dimension) inner *= shard.shape[at(d)];
  }
  const std::int64_t extent = shard.shape[at(tensor.dimension)], part = mine.count() * tensor.unit;
  for (int f = 0; f < tensor.fused; ++f) {
    const std::int64_t first = f * part + (units.first - mine.first) * tensor.unit;
    regions.push_back({outer, units.count() * tensor.unit * inner, offset + first * inner, extent * inner});
  }
}

}  // namespace

std::vector<int> unlike(const std::vector<int>& degrees) {
  std::vector<int> out;
  for (const int degree : degrees)
    if (std::ranges::find(out, degree) == out.end()) out.push_back(degree);
  return out;
}

std::vector<GradientGroup> gradient_groups(const std::vector<model::Tensor>& all, const std::vector<int>& tensors,
                                           const std::vector<int>& degrees) {
  std::set<GradientGroup> groups;  // one member for each degree: replicas of one degree send the member with the same index
  const auto kinds = unlike(degrees);
  const int most = *std::ranges::max_element(kinds);
  const auto add = [&](std::int64_t units, std::int64_t unit) {
    GradientGroup group;
    for (int degree : kinds) group.push_back(degree == 1 ? 0 : holder_of(units, degree, unit));
    groups.insert(std::move(group));
  };
  std::set<std::int64_t> seen;
  for (int t : tensors) {
    const auto& tensor = all[at(t)];
    if (tensor.axis == model::Axis::none || !seen.insert(tensor.units()).second) continue;
    for (int degree : kinds)
      for (int i = 0; i < degree; ++i) add(tensor.units(), model::share(tensor.units(), degree, i).first);
  }
  // Tensors that everybody holds whole reach every member through some group.
  if (groups.empty())
    for (int i = 0; i < most; ++i) add(most, i);
  std::vector<GradientGroup> out;
  for (const GradientGroup& group : groups) {
    GradientGroup& members = out.emplace_back();
    for (const int degree : degrees) members.push_back(group[static_cast<std::size_t>(std::ranges::find(kinds, degree) - kinds.begin())]);
  }
  return out;
}

std::vector<Region> shared_regions(const std::vector<model::Tensor>& all, const Part& part, const std::vector<int>& degrees,
                                   const GradientGroup& group, int replica) {
  std::vector<Region> regions;
  const int degree = degrees[at(replica)], index = group[at(replica)];
  for (const auto& slot : part.slots) {
    if (!slot.trained) continue;
    const auto& tensor = all[at(slot.tensor)];
    if (tensor.axis == model::Axis::none) {
      regions.push_back({1, slot.elements, slot.offset, slot.elements});
      continue;
    }
    const auto units = common_units(tensor, degrees, group);
    if (units.first < units.last) add_blocks(tensor, degree, index, units, slot.offset, regions);
  }
  return regions;
}

}  // namespace flotilla::program
