#include "snapshot.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "flotilla/base/error.hpp"

namespace flotilla::checkpoint {
namespace {

/// What a thread takes at once: much longer to copy than to take.
constexpr std::size_t chunk_values = (256 << 10) / sizeof(float);

struct Piece {
  const float* from = nullptr;
  float* to = nullptr;
  std::size_t count = 0;
};

std::size_t owned_values(const LocalState& state) {
  std::size_t sum = 0;
  for (const auto& part : state.parts)
    if (part.owner)
      for (auto kind : kinds) sum += part.values(kind).size();
  return sum;
}

void copy_some(const std::vector<Piece>& pieces, std::atomic<std::size_t>& next) {
  for (std::size_t i = next++; i < pieces.size(); i = next++) std::memcpy(pieces[i].to, pieces[i].from, pieces[i].count * sizeof(float));
}

/// One thread alone reaches a fraction of a machine's memory bandwidth, and training stands still meanwhile.
void copy_all(const std::vector<Piece>& pieces, int threads) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> others;
  for (int t = 1; t < std::min(threads, static_cast<int>(pieces.size())); ++t) others.emplace_back([&] { copy_some(pieces, next); });
  copy_some(pieces, next);
}

}  // namespace

Snapshot::Snapshot(const LocalState& like, int threads)
    : elements_{owned_values(like)}, memory_{std::make_unique<float[]>(elements_)}, threads_{threads} {}

LocalState Snapshot::take(const LocalState& state) {
  const auto needed = owned_values(state);
  FLOTILLA_ASSERT(needed == elements_, "a copy of ", elements_, " values is to hold ", needed);
  LocalState copy{state.tensors, {}};
  float* next = memory_.get();
  std::vector<Piece> pieces;
  const auto keep = [&](std::span<float>& values) {
    for (std::size_t i = 0; i < values.size(); i += chunk_values)
      pieces.push_back({values.data() + i, next + i, std::min(chunk_values, values.size() - i)});
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
  copy_all(pieces, threads_);
  return copy;
}

}  // namespace flotilla::checkpoint
