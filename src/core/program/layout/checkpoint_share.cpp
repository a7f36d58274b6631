#include "flotilla/program/checkpoint_share.hpp"

#include <algorithm>

#include "flotilla/program/optimizer_shards.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

constexpr std::int64_t parameter_bytes = 4, state_bytes = 3 * 4;  // of an element: alone, and with two moments

}  // namespace

Bytes checkpoint_share(const Program& program, Rank rank) {
  const auto& binding = program.ranks.at(rank.index());
  if (binding.rank_class < 0) return {};
  const auto& owned = binding.owned;
  std::int64_t bytes = 0;
  for (const auto& part : program.classes.at(at(binding.rank_class)).parts)
    for (const auto& slot : part.slots) {
      if (slot.trained && !part.shards.empty()) continue;  // among the pieces
      if (std::ranges::find(owned, slot.tensor) != owned.end()) bytes += slot.elements * (slot.trained ? state_bytes : parameter_bytes);
    }
  for (const auto& piece : shard_pieces(program, rank))
    if (piece.owned) bytes += piece.count * state_bytes;
  return Bytes{bytes};
}

}  // namespace flotilla::program
