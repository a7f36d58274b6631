#include "snapshot.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::checkpoint {
namespace {

std::size_t owned_values(const LocalState& state) {
  std::size_t sum = 0;
  for (const auto& part : state.parts)
    if (part.owner)
      for (auto kind : kinds) sum += part.values(kind).size();
  return sum;
}

}  // namespace

Snapshot::Snapshot(const LocalState& like) : elements_{owned_values(like)}, memory_{std::make_unique<float[]>(elements_)} {}

LocalState Snapshot::take(const LocalState& state) {
  const auto needed = owned_values(state);
  FLOTILLA_ASSERT(needed == elements_, "a copy of ", elements_, " values is to hold ", needed);
  LocalState copy{state.tensors, {}};
  float* next = memory_.get();
  const auto keep = [&](std::span<float>& values) {
    std::ranges::copy(values, next);
    values = {next, values.size()};
    next += values.size();
  };
  for (const auto& part : state.parts) {
    if (!part.owner) continue;
    auto& mine = copy.parts.emplace_back(part);
    mine.weights = {};
    keep(mine.parameters);
    keep(mine.moment1);
    keep(mine.moment2);
  }
  return copy;
}

}  // namespace flotilla::checkpoint
