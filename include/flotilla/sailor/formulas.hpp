#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/sailor/tables.hpp"
#include "flotilla/simulate/forecast.hpp"

/// The closed formulas of the simulator in the Sailor artifact (Strati et al., SOSP 2025; github.com/eth-easl/sailor, MIT), written down
/// anew: fp32 training with Adam under DeepSpeed and Megatron, 1F1B, one microbatch size, no overlap. They are that artifact's opinion,
/// kept as it is so that published figures can be reproduced; simulate::ProgramForecaster is ours. docs/design/forecast.md lists where
/// the two differ.
namespace flotilla::sailor {

// Constants of the formulas.
inline constexpr double bucket = 5e8;                   ///< bytes that gradients are summed in at once: DeepSpeed's
inline constexpr int most_gradient_shares = 4;          ///< ways in which tensor parallelism is taken to divide a gradient
inline constexpr double slowest_rate = 1e-3;            ///< GB/s: fits fall below zero left of the sizes that they were made for
inline constexpr Bytes beside_alone{2'000'000'000};     ///< what nvidia-smi shows beside torch's memory, without tensor parallelism
inline constexpr Bytes beside_in_group{3'000'000'000};  ///< and with it
inline constexpr double bytes_a_parameter = 24, bytes_an_activation = 4;

/// Equal replicas that stand next to each other.
struct SailorRun {
  SailorKind kind;
  int count = 1;
};
struct SailorStage {
  int first_layer = 0, last_layer = 0;  ///< half-open
  std::vector<SailorRun> replicas;
};
/// All that the formulas look at in a plan.
struct SailorPlan {
  int global_batch = 1;  ///< sequences
  int sequences = 1;     ///< m, of a microbatch
  std::vector<SailorStage> stages;
};

/// D: replicas of a stage.
int degree(const SailorStage&);
/// n = ceil(global batch / (m D)), D of the first stage.
int microbatches(const SailorPlan&);

struct SailorStageTimes {
  Seconds compute;    ///< of one microbatch: forward and backward of the slowest replica
  Seconds sending;    ///< of one microbatch
  Seconds update;     ///< of the slowest replica
  Seconds reduction;  ///< of the gradients, after the pipeline
};
struct SailorEstimate {
  Seconds iteration;  ///< (n - 1) max(compute + sending) + sum compute + sum sending + max update, then max reduction
  Seconds pipeline;   ///< the part before the gradients' reduction
  std::vector<SailorStageTimes> stages;
  simulate::Expense expense;
};
/// Times and cost of a plan whose stages cover the model's layers; nullopt where the tables lack something that it takes, which `why`, if
/// given, then names. Fit for a search's inner loop.
std::optional<SailorEstimate> sailor_estimate(const SailorTables&, const SailorPlan&, std::string* why = nullptr);

/// What the estimate is made of, for searches that build plans piece by piece.

/// Forward and backward of one microbatch on the slowest replica.
std::optional<Seconds> sailor_compute(const SailorTables&, const SailorStage&, int sequences);
/// Of `bytes` between devices: bytes / (a x^2 + b x + c) GB/s, x = log2(bytes / 10^6). A fit of less than 1 MB/s (below the sizes it was
/// made for) counts as that.
Seconds sailor_message(const cluster::LinkFit&, double bytes);
/// Of the slowest pair of neighbours: replica j of `from` sends to replica j modulo D of `to`.
std::optional<Seconds> sailor_boundary(const SailorTables&, const SailorStage& from, const SailorStage& to, double bytes);
/// What stage `stage` of `stages` adds to a microbatch: `up` to the next stage, `down` to the one before.
Seconds sailor_sending(int stage, int stages, Seconds up, Seconds down);
/// A ring of `members` in buckets of 500 MB: each 2 (D - 1) messages of bucket / D.
Seconds sailor_all_reduce(const cluster::LinkFit&, int members, double bytes);
/// Over the slowest link between neighbouring replicas; a tensor-parallel group shares the gradient at most four ways.
std::optional<Seconds> sailor_reduction(const SailorTables&, const SailorStage&);

/// One device: 24 bytes for a parameter (weights, gradients, two moments, two copies), activations of P - stage microbatches, and
/// what Megatron takes beside. nullopt for a degree without sizes.
std::optional<simulate::MemoryForecast> sailor_memory(const SailorTables&, int tensor_parallel, int sequences, int first_layer,
                                                      int last_layer, int stage, int stages);
/// Every replica within its type's memory; a type of unknown memory (0) or a degree without sizes does not fit.
bool sailor_fits(const SailorTables&, const SailorPlan&);

/// Devices for `time`, and the traffic of one iteration between zones.
simulate::Expense sailor_expense(const SailorTables&, const SailorPlan&, Seconds time);

}  // namespace flotilla::sailor
