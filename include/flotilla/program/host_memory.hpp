#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/program/program.hpp"

/// What a rank that computes on a GPU holds in its host's memory: a function of its class, so that a forecast knows it to the byte.
namespace flotilla::program {

/// Whether a thread of the host moves an instruction's data: messages and collectives.
constexpr bool moved_by_host(const Instruction& instruction) {
  return instruction.queue != Queue::compute && instruction.queue != Queue::copy;
}

/// Whether the host fills in its operand from the data.
inline bool loads_input(const Instruction& instruction) {
  return instruction.as<TokenLoad>() != nullptr || instruction.as<DocumentLoad>() != nullptr;
}

/// A place in pinned memory for every buffer that messages, collectives or the host itself read and write; instances as the buffer has
/// them.
struct HostLayout {
  std::vector<std::int64_t> offsets;  ///< by buffer; -1: it has no place
  Bytes size;                         ///< at least 1
};
HostLayout host_layout(const RankClass&);

/// Buffers of the state, of which the host has a copy between steps (checkpoints, changes of plan), ascending: parameters and moments, and
/// where steps use a copy of the parameters, that. A part of which the rank keeps but a shard has its whole parameters where its gradients
/// are summed.
std::vector<int> state_buffers(const RankClass&, Precision);

/// Copies of the state go through so many pieces of pinned memory of that size.
inline constexpr Bytes mirror_piece{8 << 20};
inline constexpr int mirror_pieces = 2;  // one is copied by the host while the other is on its way

/// `pinned`: a training program's places and the mirror's pieces. `state`: the copy of the state, in ordinary memory.
struct HostMemory {
  Bytes pinned, state;
};
HostMemory host_memory(const RankClass&, Precision);

}  // namespace flotilla::program
