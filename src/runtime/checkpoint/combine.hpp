#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/mpi/communicator.hpp"

namespace flotilla::checkpoint {

/// XOR, or sum, of all ranks' values, element by element; on rank 0 (the others keep partial results). Same length everywhere. Collective;
/// a tree of messages, so the traffic of a rank does not grow with their number. Their tag is none of an agreement, so a world's control
/// channel will do. Throws Error{communication} after `deadline`.
void combine_xor(const mpi::Communicator&, std::vector<std::uint32_t>& values, Seconds deadline);
void combine_sum(const mpi::Communicator&, std::vector<std::uint64_t>& values, Seconds deadline);

/// Rank 0's values, on all. Collective.
std::vector<std::uint32_t> broadcast(const mpi::Communicator&, const std::vector<std::uint32_t>& values, Seconds deadline);
std::vector<std::int64_t> broadcast(const mpi::Communicator&, const std::vector<std::int64_t>& values, Seconds deadline);

}  // namespace flotilla::checkpoint
