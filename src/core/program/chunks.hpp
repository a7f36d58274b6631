#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "parcels.hpp"

/// Devices that hold several stages ("chunks"): interleaved 1F1B (Narayanan et al. 2021), for any number of microbatches and for stages
/// that are dealt unlike. Own stage p of P holds stages p, p + P, ...; the last own stage hands on to the first.
namespace flotilla::program {

/// One step of a device: a pass of a microbatch through a chunk, or a message of that pass that is received from here on.
struct ChunkStep {
  enum class What : std::uint8_t { forward, backward, receive_activation, receive_gradient };
  What what = What::forward;
  int chunk = 0, microbatch = 0;
  int parcel = -1;  ///< of a message: index into the chunk's Parcels::activations_in or gradients_in
  auto operator<=>(const ChunkStep&) const = default;
};

/// How many microbatches of a chunk need room at once.
struct ChunkCopies {
  int in_flight = 1;  ///< between their two passes
  int received = 1;   ///< their input: from the time when the sender must be rid of it
  int gradients = 1;  ///< their gradient: until the stage before has begun to receive it
  auto operator<=>(const ChunkCopies&) const = default;
};

/// A pass on the clock (chunk_clock.cpp).
struct TimedPass {
  int chunk = 0, microbatch = 0;
  bool backward = false;
  std::int64_t start = 0, end = 0;
};

/// What one microbatch of a neighbouring stage brings to a pass.
struct Arrival {
  int chunk = 0, microbatch = 0;
  bool backward = false;
  plan::Microbatch shared;         ///< what both have in common; `first` counts from the first sequence of the device's microbatch
  std::int64_t sent = 0, due = 0;  /// when the sender's pass ends, and the time by which the receive has begun
};

/// The order of one device, whatever its tensor index.
struct DeviceOrder {
  std::vector<TimedPass> passes;
  std::vector<Arrival> arrivals;    ///< in the order of `sent`; `due` never falls
  std::vector<ChunkCopies> copies;  ///< by chunk
};

/// By own stage and replica the passes on a clock on which every replica needs the same time for its share and backward twice as long as
/// forward. A device goes forward while fewer passes than its depth are in flight, else back; each way in the order of groups of
/// microbatches, and there of the way through the chunks. Where stages are dealt alike, groups, depth and order are those of Narayanan et
/// al. Where they are not, what waits may be overtaken, if that ends sooner. `deals` by own stage; `boundaries` likewise, behind each, the
/// last one's leading back to the first.
std::vector<std::vector<std::vector<TimedPass>>> passes_by_clock(const std::vector<plan::Deal>& deals,
                                                                 const std::vector<Boundary>& boundaries, int chunks, bool training);

/// The whole orders. A receive begins when its pass does or, if that is earlier, when the sender needs the room of what it sent (two
/// instances), but never before one that was sent earlier: then both ends of a pair list their messages in one order. Buffers have as many
/// instances as that takes on the clock, so that it is itself the proof that the program ends: every wait is for something earlier on it.
std::vector<std::vector<DeviceOrder>> interleave(const std::vector<plan::Deal>& deals, const std::vector<Boundary>& boundaries, int chunks,
                                                 bool training);

/// Orders of all devices of a plan; columns that are dealt alike share theirs.
class Interleaving {
 public:
  Interleaving() = default;
  Interleaving(const std::vector<plan::Deal>& deals, const std::vector<Boundary>& boundaries, int chunks, bool training);
  const DeviceOrder& of(int own_stage, int replica) const;

 private:
  std::vector<std::vector<DeviceOrder>> orders_;  ///< by own stage and replica, or kind of column
  std::vector<int> kinds_;                        ///< by replica; empty where every replica has its own
};

/// The steps of one rank: passes, and before them the receives that have begun by then. `parcels` by chunk; `length` in tokens; `own` by
/// microbatch: the token of it that stands where the rank's buffers begin, the first of its piece where tokens are shared, else 0.
std::vector<ChunkStep> steps_of(const DeviceOrder&, const std::vector<Parcels>& parcels, int length, const std::vector<std::int64_t>& own);

/// Where all chunks stand on one stage of devices, each microbatch passes through all of them at once.
std::vector<ChunkStep> steps_in_place(int chunks, int microbatches, bool training);

}  // namespace flotilla::program
