#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/precision.hpp"
#include "flotilla/model/config.hpp"

/// The contract between thinking and doing: which devices hold which layers and who handles which sequences. A value: comparable,
/// printable, versioned on disk, editable by hand.
namespace flotilla::plan {

enum class Recompute { none, selective, full };
enum class ScheduleKind { gpipe, one_f_one_b, interleaved, zero_bubble };  ///< spelled "gpipe", "1f1b", "interleaved" and "zero-bubble"

std::string to_string(Recompute);
std::string to_string(ScheduleKind);
Recompute parse_recompute(const std::string&);    ///< throws Error{bad_input}
ScheduleKind parse_schedule(const std::string&);  ///< throws Error{bad_input}

/// One copy of a stage's layers, cut over a tensor-parallel group of devices.
struct Replica {
  std::string device_type;
  std::string zone;
  int tensor_parallel = 1;
  std::vector<Rank> devices;  ///< tensor_parallel of them, tensor index order; empty until bound to an allocation
  int quanta = 1;             ///< k: quanta in a full microbatch
  int sequences = 0;          ///< of the global batch that this replica handles; its last microbatch may be short
  bool operator==(const Replica&) const = default;

  int microbatches(int quantum) const { return (sequences + quanta * quantum - 1) / (quanta * quantum); }
};

struct Stage {
  int first_layer = 0, last_layer = 0;  ///< half-open; layers are model::Config's 0 … blocks+1
  Recompute recompute = Recompute::none;
  std::vector<Replica> replicas;
  bool operator==(const Stage&) const = default;
};

struct Plan {
  model::Config model;
  int length = 0;        ///< tokens in a sequence
  int global_batch = 0;  ///< sequences in a step
  int quantum = 1;       ///< q: sequences in the unit of routing; divides global_batch
  Precision precision = Precision::fp32;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::vector<Stage> stages;
  int chunks = 1;  ///< stages that one device holds: stage s stands on the devices of stage s mod (stages / chunks)
  bool sequence_parallel =
      false;  ///< between tensor-parallel regions every member holds its part of the sequence (Korthikanti et al. 2022)
  bool shard_optimizer =
      false;  ///< each of those who sum a gradient keeps and updates its share of the optimizer's state (ZeRO-1, Rajbhandari et al. 2020)
  bool operator==(const Plan&) const = default;
};

/// One thing wrong with a plan: where ("stages[1].replicas[0].sequences") and what was expected.
struct PlanProblem {
  std::string where, what;
};
/// Everything wrong with the plan, empty when it is valid: layers cover 0 … blocks+1 without gap, sequences of every stage sum to the
/// global batch, tensor degrees no more than heads, no device twice (but for the stages of one device, whose replicas are equal), devices
/// all bound (to ranks 0 … n-1) or none, counts positive.
std::vector<PlanProblem> validate(const Plan&);
/// Throws Error{bad_input}: "<source>: <where>: <what>" for the first problem.
void require_valid(const Plan&, const std::string& source);

/// Stages that stand on devices of their own: stages / chunks. The others share their devices.
int own_stages(const Plan&);
/// Number of ranks a bound plan uses; devices are ranks 0 … n-1 of the job (others stay idle).
int rank_count(const Plan&);
/// Where a rank works, or stage = -1 when the plan does not use it.
struct RankCoordinates {
  int stage = -1, replica = -1, tensor_index = -1;
  bool operator==(const RankCoordinates&) const = default;
};
RankCoordinates place_of(const Plan&, Rank);

/// By quantum (0 … global_batch/quantum - 1) of the step the replica of a stage that handles it. A pure function of the plan
/// (batch_partition.hpp): each quantum visits one replica of every stage.
std::vector<int> routes(const Plan&, int stage);

/// The even plan: data x pipeline x tensor parallel degrees, layers cut by the given boundaries (pipeline+1 values from 0 to layers) or
/// evenly over the blocks when empty (embedding with the first stage, head with the last; over all layers when there are more stages than
/// blocks). `microbatch` is in sequences; the quantum is its largest divisor that deals the batch evenly, replicas differ by one quantum
/// at most. Rank = (stage * data + replica) * tensor + tensor_index. Throws Error{bad_input} when the degrees exceed what they cut.
Plan even_plan(const model::Config&, int length, int global_batch, Precision, int data, int pipeline, int tensor, int microbatch,
               ScheduleKind = ScheduleKind::one_f_one_b, std::vector<int> cuts = {});

/// One line: "2 stages: [0,4) 2x tp1 mb4, [4,8) 1x tp2 mb8 | 1f1b | batch 16 = 8 x 2"; mb is the microbatch in sequences, the batch is
/// quanta x quantum. Device types stand behind the degrees where a plan has several.
std::string summary(const Plan&);

}  // namespace flotilla::plan
