#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "boundary_messages.hpp"
#include "flotilla/schedule/pipeline_schedule.hpp"

/// Devices that hold several stages ("chunks"): own stage p of P holds stages p, p + P, ...; the last own stage hands on to the first.
namespace flotilla::program {

/// One step of a device: a pass of a microbatch through a chunk, or a message of that pass that is received from here on.
struct ChunkStep {
  enum class What : std::uint8_t { forward, backward, receive_activation, receive_gradient };
  What what = What::forward;
  int chunk = 0, microbatch = 0;
  int boundary_message = -1;  ///< of a message: index into the chunk's BoundaryMessages::activations_in or gradients_in
  auto operator<=>(const ChunkStep&) const = default;
};

/// The steps of one rank: passes, and before them the receives that have begun by then. `boundary_messages` by chunk; `length` in tokens;
/// `own` by microbatch: the token of it that stands where the rank's buffers begin, the first of its piece where tokens are shared, else 0.
std::vector<ChunkStep> steps_of(const schedule::DeviceOrder&, const std::vector<BoundaryMessages>& boundary_messages, int length,
                                const std::vector<std::int64_t>& own);

/// Where all chunks stand on one stage of devices, each microbatch passes through all of them at once.
std::vector<ChunkStep> steps_in_place(int chunks, int microbatches, bool training);

}  // namespace flotilla::program
