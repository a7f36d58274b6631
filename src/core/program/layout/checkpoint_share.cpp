#include "flotilla/program/checkpoint_share.hpp"

#include <algorithm>

#include "flotilla/program/optimizer_shards.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

constexpr std::int64_t bytes_per_element = 3 * 4;  // a parameter and two moments

}  // namespace

Bytes checkpoint_share(const Program& program, Rank rank) {
  const auto& binding = program.ranks.at(rank.index());
  if (binding.rank_class < 0) return {};
  const auto& owned = binding.owned;
  std::int64_t elements = 0;
  for (const auto& part : program.classes.at(at(binding.rank_class)).parts) {
    if (!part.shards.empty()) continue;
    for (const auto& slot : part.slots)
      if (std::ranges::find(owned, slot.tensor) != owned.end()) elements += slot.elements;
  }
  for (const auto& piece : shard_pieces(program, rank))
    if (piece.owned) elements += piece.count;
  return Bytes{elements * bytes_per_element};
}

}  // namespace flotilla::program
