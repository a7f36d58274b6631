#pragma once
#include <bit>
#include <optional>
#include <vector>

#include "device_pool.hpp"

namespace flotilla::search::pool {

constexpr int largest_microbatch = 64;  ///< sequences

/// A small number for each size of microbatch: every one up to the largest that is searched; above it, of plans that run now and of sizes
/// that are fixed, one for each power of two.
constexpr std::size_t number_of_size(int microbatch) {
  constexpr int last_bits = std::bit_width(static_cast<unsigned>(largest_microbatch));
  const int above = microbatch <= largest_microbatch ? 0 : std::bit_width(static_cast<unsigned>(microbatch)) - last_bits;
  return at(above == 0 ? microbatch - 1 : largest_microbatch - 1 + above);
}
constexpr std::size_t numbers_of_sizes = 96;

/// Where one replica of a stage stands.
struct Slot {
  int place = 0;
  int tensor = 1;
  bool operator==(const Slot&) const = default;
};

/// Replicas with equal numbers in all stages, along which microbatches travel; `count` equal ones.
struct PipelineReplica {
  std::vector<Slot> slots;  ///< by stage
  int microbatch = 1;       ///< sequences; a power of two where turns are dealt
  int count = 1;
  int sequences = 0;  ///< of all of them, in one iteration; set when the batch is dealt (batch_partition.cpp)
  bool operator==(const PipelineReplica&) const = default;
};

/// How columns come to their shares of the batch.
enum class BatchPartition {
  whole_microbatches,  ///< in whole microbatches as far as the batch goes
  balanced  ///< sequence by sequence, as fast as each column is; every share in even microbatches, at most as large as the column's
};

/// A plan while it is searched for.
struct CandidatePlan {
  std::vector<int> cuts;                   ///< stages + 1 layer boundaries
  std::vector<plan::Recompute> recompute;  ///< by stage
  std::vector<PipelineReplica> pipelines;
  plan::ScheduleKind schedule = plan::ScheduleKind::one_f_one_b;
  BatchPartition partition = BatchPartition::whole_microbatches;
  int chunks = 1;  ///< that a stage's layers are cut into, as plan::Plan::chunks
  bool sequence_parallel = false;
  std::optional<bool> shard_optimizer{};  ///< open until an estimate has found out what is better
  int stages() const { return static_cast<int>(cuts.size()) - 1; }
  bool operator==(const CandidatePlan&) const = default;
};

/// Whether a stage has transformer blocks, which may be recomputed.
bool has_blocks(const CandidatePlan&, std::size_t stage);
int pipelines_of(const CandidatePlan&);
bool has_tensor_groups(const CandidatePlan&);
int devices_of(const CandidatePlan&);
/// Whether it takes so many devices of a type and zone.
bool has(const CandidatePlan&, const DeviceDemand&, const DevicePool&);
/// Devices times their prices, per second.
double price_of(const CandidatePlan&, const DevicePool&);
double usd_of(const CandidatePlan&, const DevicePool&);

/// What a request fixes of every plan: model, length, batch, precision.
plan::Plan plan_without_stages(const PlanRequest&);
/// Unbound. Columns of equal work stand next to each other, place by place. Has one chunk where a stage has too few layers for more.
plan::Plan plan_of(const CandidatePlan&, const DevicePool&);

/// Whether its plan is as the request's restrictions and constraints ask for; of a candidate whose batch is dealt.
bool is_as_asked(const CandidatePlan&, const DevicePool&);

}  // namespace flotilla::search::pool
