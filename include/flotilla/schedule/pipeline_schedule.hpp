#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "flotilla/plan/batch_partition.hpp"
#include "flotilla/schedule/boundary.hpp"
#include "flotilla/schedule/schedule.hpp"

namespace flotilla::schedule {

/// How many microbatches of a chunk need room at once.
struct ChunkCopies {
  int in_flight = 1;  ///< between their two passes
  int received = 1;   ///< their input: from the time when the sender must be rid of it
  int gradients = 1;  ///< their gradient: until the stage before has begun to receive it
  auto operator<=>(const ChunkCopies&) const = default;
};

/// What one microbatch of a neighbouring stage brings to a pass.
struct Arrival {
  int chunk = 0, microbatch = 0;
  bool backward = false;
  plan::Microbatch shared;         ///< what both have in common; `first` counts from the first sequence of the device's microbatch
  std::int64_t sent = 0, due = 0;  ///< when the sender's pass ends, and the time by which the receive has begun; in ticks
};

/// The order of a device that holds several stages: its passes and the receives between them, whatever its tensor index.
struct DeviceOrder {
  std::vector<TimedPass> passes;
  std::vector<Arrival> arrivals;    ///< in the order of `sent`; `due` never falls
  std::vector<ChunkCopies> copies;  ///< by chunk
};

/// Messages that a device may have sent and not yet got rid of, each way. Orders rely on as many buffers.
constexpr int sent_copies = 2;

/// The schedule of one plan: what each of its replicas does. Where columns are dealt alike their orders are the published ones; else the
/// list scheduler runs the pipeline through once, with equal times for equal shares. Pure integers: the same orders everywhere.
class PipelineSchedule {
 public:
  /// Of a training step over `sequences` sequences, or of forward passes alone.
  PipelineSchedule(const plan::Plan&, int sequences, bool training);

  const std::vector<plan::BatchPartition>& batch_partitions() const { return batch_partitions_; }  ///< by stage
  const std::vector<Boundary>& boundaries() const { return boundaries_; }                          ///< by the stage before
  /// Whether replicas of a stage that are dealt the same have the same order.
  bool has_columns() const { return orders_.empty(); }

  /// Of a plan whose devices hold one stage each.
  PassOrder order(int stage, int replica) const;
  /// Of one whose devices hold several, on several devices in a row. A receive begins when its pass does or, if that is earlier, when the
  /// sender needs the room of what it sent (sent_copies), but never before one that was sent earlier: then both ends of a pair list their
  /// messages in one order. Buffers have as many instances as that takes, so the list schedule is itself the proof that the program ends:
  /// every wait is for something earlier in it.
  const DeviceOrder& device_order(int own_stage, int replica) const;

 private:
  int depth_ = 1;
  bool training_ = true;
  const Schedule* schedule_ = nullptr;
  std::vector<Fraction> deferrable_;  ///< by stage
  std::vector<plan::BatchPartition> batch_partitions_;
  std::vector<Boundary> boundaries_;
  std::vector<std::vector<PassOrder>> orders_;           ///< by stage and replica; empty where columns have theirs
  std::vector<std::vector<DeviceOrder>> device_orders_;  ///< by own stage and replica, or kind of column
  std::vector<int> kinds_;                               ///< by replica its kind of column; empty where every replica has its own
};

}  // namespace flotilla::schedule
