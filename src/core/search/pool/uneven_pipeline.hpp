#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "estimate.hpp"

namespace flotilla::search::pool {

/// Equal replicas of a stage.
struct ReplicaGroup {
  int place = 0;
  int tensor = 1;
  int count = 1;
  int microbatch = 1;  ///< sequences, a power of two
  int sequences = 0;   ///< of all of them, in one iteration; set by deal()
  bool operator==(const ReplicaGroup&) const = default;
};

/// A stage's replicas: of one kind or of several, which share the batch as fast as each of them is.
using StageReplicas = std::vector<ReplicaGroup>;

/// Stages one after the other, each with its own number of replicas: every device works, whatever the numbers of its kinds. What candidates
/// of columns cannot say.
struct UnevenPipeline {
  std::vector<StageReplicas> stages_replicas;
  std::vector<int> cuts;                   ///< stages + 1 layer boundaries
  std::vector<plan::Recompute> recompute;  ///< by stage
  bool operator==(const UnevenPipeline&) const = default;
};

/// Of a line that is dealt: unbound; shares of equal replicas are equal but for a quantum.
plan::Plan plan_of(const UnevenPipeline&, const DevicePool&);

/// Seconds of an iteration without its program: the batch at the pace of the slowest stage, one microbatch's way through the others and
/// back, the longest sums, the optimizer.
class UnevenPipelineEstimator {
 public:
  UnevenPipelineEstimator(Estimator& estimate, Network& network)
      : estimate_{estimate}, network_{network}, device_pool_{estimate.device_pool()} {}

  /// Cuts the layers so that the slowest stage is as fast as it can be and all fit their memories; its time, or nothing where no cut fits
  /// or where every one takes longer than `enough`.
  std::optional<double> cut(UnevenPipeline&, double enough = 1e300);
  /// Seconds in which no cut lets these stages take the batch.
  double floor(const std::vector<StageReplicas>&);
  /// Of a line that is cut, which it deals; nothing where the batch does not go round, some stage does not fit or the runtime cannot
  /// execute it.
  std::optional<double> operator()(UnevenPipeline&);

 private:
  const LayerCostSample& layer_cost(const ReplicaGroup&, plan::Recompute);
  bool usable(const StageReplicas&, plan::Recompute);
  double share_of_turn(const StageReplicas&) const;
  std::vector<std::int64_t> under_way(const UnevenPipeline&) const;
  bool fits(const ReplicaGroup&, int replicas, int first, int last, plan::Recompute, int kept);
  bool fits(const UnevenPipeline&, std::size_t stage);
  double pace(const StageReplicas&, int first, int last, plan::Recompute);
  double least_pace(const StageReplicas&);
  bool fill(UnevenPipeline&, double pace);
  bool deal(UnevenPipeline&);
  bool deal(StageReplicas&, int first, int last, plan::Recompute, int quantum);
  double behind(const StageReplicas& here, const StageReplicas& next);
  double after(const UnevenPipeline&, std::size_t stage);

  Estimator& estimate_;
  Network& network_;
  const DevicePool& device_pool_;
};

}  // namespace flotilla::search::pool
