#include "snapshot.hpp"

#include <algorithm>
#include <cstring>

#include "flotilla/base/error.hpp"

namespace flotilla::checkpoint {
namespace {

/// What a thread takes at once: much longer to copy than to take, and little to wait for.
constexpr std::size_t piece_values = (256 << 10) / sizeof(float);

std::size_t owned_values(const LocalState& state) {
  std::size_t sum = 0;
  for (const auto& part : state.parts)
    if (part.owner)
      for (auto kind : kinds) sum += part.values(kind).size();
  return sum;
}

}  // namespace

Snapshot::Snapshot(const LocalState& like) : elements_{owned_values(like)}, memory_{std::make_unique<float[]>(elements_)} {}

LocalState Snapshot::begin(const LocalState& state) {
  FLOTILLA_ASSERT(copied_ == pieces_.size(), "a copy is under way");
  const auto needed = owned_values(state);
  FLOTILLA_ASSERT(needed == elements_, "a copy of ", elements_, " values is to hold ", needed);
  LocalState copy{state.tensors, {}};
  float* next = memory_.get();
  pieces_.clear();
  const auto keep = [&](std::span<float>& values) {
    for (std::size_t i = 0; i < values.size(); i += piece_values)
      pieces_.push_back({values.data() + i, next + i, std::min(piece_values, values.size() - i)});
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
  taken_ = copied_ = 0;
  return copy;
}

void Snapshot::complete() {
  const auto all = pieces_.size();
  auto copied = copied_.load(std::memory_order_acquire);
  if (copied == all) return;
  for (std::size_t i = taken_++; i < all; i = taken_++) {
    std::memcpy(pieces_[i].to, pieces_[i].from, pieces_[i].count * sizeof(float));
    if (++copied_ == all) copied_.notify_all();
  }
  while ((copied = copied_.load(std::memory_order_acquire)) != all) copied_.wait(copied, std::memory_order_acquire);
}

}  // namespace flotilla::checkpoint
