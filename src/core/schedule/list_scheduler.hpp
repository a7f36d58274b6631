#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "flotilla/plan/batch_partition.hpp"
#include "flotilla/schedule/boundary.hpp"
#include "flotilla/schedule/passes.hpp"
#include "flotilla/schedule/schedule.hpp"

/// The list scheduler: every device that is free begins the pass that its rule names, event after event, until all passes are made.
namespace flotilla::schedule {

using Ticks = std::int64_t;

/// What is scheduled. `batch_partitions` by own stage; `boundaries` likewise, behind each; with several chunks the last one's leads back to
/// the first.
struct PipelineShape {
  const std::vector<plan::BatchPartition>& batch_partitions;
  const std::vector<Boundary>& boundaries;
  int chunks = 1;
  bool training = true;  ///< else forward passes alone
};

/// A microbatch of a neighbouring stage that shares sequences with one of ours.
struct Partner {
  int replica = 0, microbatch = 0;
};

/// How far a chunk of a device is: passes begun, ended, and those whose messages have arrived.
struct ChunkProgress {
  int forwards = 0, backwards = 0, weights = 0;
  int forwards_done = 0, backwards_done = 0;
  int forwards_sent = 0, backwards_sent = 0;
};

/// The devices of one replica, as one.
struct ScheduledDevice {
  std::vector<plan::Microbatch> microbatches;
  std::vector<std::vector<Partner>> before, after;  ///< by microbatch: of the own stages on either side
  int sequences = 0;                                ///< of all microbatches
  int limit = 1;                                    ///< passes in flight; set by the rule
  int deferred = -1;                                ///< weight-gradient halves that wait; set by the rule. -1: passes are whole
  int in_flight = 0;                                ///< passes
  bool busy = false;
  std::vector<ChunkProgress> chunks;
  std::vector<TimedPass> passes;  ///< begun, in order

  int count() const { return static_cast<int>(microbatches.size()); }
};

/// Where all devices of a pipeline are.
class PipelineState {
 public:
  explicit PipelineState(const PipelineShape&);

  int depth() const { return static_cast<int>(stages_.size()); }
  int chunks() const { return chunks_; }
  bool training() const { return training_; }
  std::vector<std::vector<ScheduledDevice>>& stages() { return stages_; }
  const std::vector<std::vector<ScheduledDevice>>& stages() const { return stages_; }
  ScheduledDevice& device(int stage, int replica);
  const ScheduledDevice& device(int stage, int replica) const;

  /// Whether all that the pass needs from other devices, and a backward pass from its own forward pass, is there.
  bool is_ready(int stage, const ScheduledDevice&, const Pass&) const;
  bool is_done() const;
  /// By stage: the largest part of the whole batch that one of its replicas takes at once, in units of whole_batch.
  std::vector<std::int64_t> grains() const;

 private:
  bool has_come_forward(int stage, const ScheduledDevice&, const Pass&) const;
  bool has_come_backward(int stage, const ScheduledDevice&, const Pass&) const;

  int chunks_;
  bool training_;
  std::vector<std::vector<ScheduledDevice>> stages_;
};

/// What a free device does next: the part of a schedule that the list scheduler asks.
class PassRule {
 public:
  virtual ~PassRule() = default;
  /// Sets limits before the first pass.
  virtual void prepare(PipelineState&) {}
  /// A pass that can begin now (PipelineState::is_ready), or nothing: the device waits.
  virtual std::optional<Pass> next(const PipelineState&, int stage, int replica) const = 0;
  /// Nothing moves, though not all is done: raises a limit. False: this rule has come to its end.
  virtual bool relax(PipelineState&) { return false; }
  /// Whether a pass may wait for room in buffers of other devices, not for their messages alone.
  virtual bool waits_for_room() const { return false; }
};

/// How long things take, in ticks of the caller's.
class Timing {
 public:
  virtual ~Timing() = default;
  virtual Ticks pass(const ScheduledDevice&, int stage, int replica, const Pass&) const = 0;
  /// From the end of the pass until the next stage (forward) or the one before (backward) may use it. Messages of a device to one side
  /// follow one another.
  virtual Ticks message(int /*stage*/, int /*replica*/, const Pass&) const { return 0; }
};

struct ListSchedule {
  std::vector<std::vector<ScheduledDevice>> devices;  ///< by own stage and replica
  Ticks end = 0;                                      ///< of the last pass
};

/// With the given times; nothing where the rule came to its end before all passes were made.
std::optional<ListSchedule> list_schedule(const PipelineShape&, PassRule&, const Timing&);
/// With equal times: every replica needs whole_batch ticks for the forward passes of its share, and as much for either half of its
/// backward passes. Of the rules the one that ends first.
ListSchedule list_schedule(const PipelineShape&, const std::vector<std::unique_ptr<PassRule>>&);
/// The given passes, by own stage and replica, as early as they can be made in their order.
std::optional<ListSchedule> timed(const PipelineShape&, const std::vector<std::vector<std::vector<Pass>>>& passes, const Timing&);

}  // namespace flotilla::schedule
