#pragma once
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "candidate_plan.hpp"
#include "plan_evaluator.hpp"

namespace flotilla::search::pool {

/// What a layer takes of one replica's device.
struct LayerCost {
  double pass = 0;         ///< seconds of one microbatch, forward and backward, with what is recomputed and the group's collectives
  double update = 0;       ///< seconds of the optimizer
  double state = 0;        ///< bytes from step to step: weights, gradients, moments, and a described runtime's copies of them
  double activations = 0;  ///< bytes for every microbatch in flight
  double shareable = 0;    ///< of `state`: what replicas may share out among them (plan::Plan::shard_optimizer)
};

/// The layers of a model on one type of device, at one tensor degree and microbatch.
struct LayerCostSample {
  bool usable = false;
  LayerCost embedding, block, head;
  double shared = 0;             ///< bytes of state that embedding and head both count: the token embedding, where one stage holds both
  double beside = 0;             ///< bytes once: workspace, the process, what passes need however many microbatches are in flight
  double neighbour = 0;          ///< bytes for every neighbouring stage
  double once = 0;               ///< bytes once where a stage has blocks or the head: boundary messages, what is computed again
  double once_in_one_stage = 0;  ///< the same of a stage that holds all layers, which exchanges no messages
  double embedding_alone = 0;    ///< bytes for every microbatch in flight of a stage that holds nothing else
};

/// Seconds of one microbatch through a layer, forward and backward, at least: what a layer cost sample finds, without its small plan. Only
/// times.
struct LeastPassTime {
  bool usable = false;
  double embedding = 0, block = 0, head = 0;
};

/// Learns what layers cost from small plans of three stages with one replica and three microbatches, so whatever runtime the forecast
/// knows, the search knows. A device's passes do not depend on its neighbours, so that they are the whole plan's.
/// Of a described runtime, plans with embedding, blocks and head as stages are forecast.
/// Of ours, plans with one and with two blocks in each stage, and with one stage, are lowered for their memory: it does not depend on the
/// type, and grows evenly with blocks and microbatch. Times come from the forecaster's bound of a layer, which leaves out only what members
/// of a tensor-parallel group wait for each other (0.3 % of a block).
class LayerCostTable {
 public:
  LayerCostTable(const DevicePool&, PlanEvaluator&);

  /// `shared`: sequence parallelism, which the request may fix for all.
  const LayerCostSample& of(int type, int tensor, int microbatch, plan::Recompute recompute, bool shared = false) {
    const Way way{type, tensor, recompute, shares_tokens(tensor, shared)};
    auto& known = known_[index(way, microbatch)];
    if (!known) known = take(way, microbatch);
    return *known;
  }
  /// For what is to be ranked or ruled out: a small fraction of the work of a layer cost sample where the runtime is ours.
  const LeastPassTime& least_pass(int type, int tensor, int microbatch, plan::Recompute recompute, bool shared = false) {
    return least_pass(Way{type, tensor, recompute, shares_tokens(tensor, shared)}, microbatch);
  }
  /// Bytes of a device with layers [first, last) and one microbatch, at least; 0 where nothing is known without a layer cost sample.
  double least_bytes(int first, int last, int tensor, int microbatch, plan::Recompute) const;
  /// What the forecaster's bound of a plan says of embedding, a block and the head; nothing where it knows too little.
  std::optional<std::array<simulate::LayerBound, 3>> layer_bounds(int type, int tensor, int microbatch, plan::Recompute,
                                                                  bool sequence_parallel) const;
  /// Of our runtime; nullptr for a described one.
  const simulate::ProgramForecaster* bounds() const { return bounds_.get(); }
  bool knows(int type, int tensor, int microbatch, plan::Recompute recompute) const {
    return known_[index({type, tensor, recompute, shares_tokens(tensor, false)}, microbatch)] != nullptr;
  }
  std::int64_t taken() const { return taken_; }

 private:
  /// What layers run on, and how.
  struct Way {
    int type = 0, tensor = 1;
    plan::Recompute recompute = plan::Recompute::none;
    bool shares_tokens = false;
  };
  bool shares_tokens(int tensor, bool asked) const {
    return tensor > 1 && device_pool_.request.constraints.sequence_parallel.value_or(asked);
  }
  static constexpr std::size_t powers = 16, modes = 3, layouts = 2;  // layouts: of tokens, whole or shared
  /// Of powers of two their logarithms, then what else the pool has.
  std::size_t number_of_degree(int tensor) const {
    const auto unsigned_degree = static_cast<unsigned>(tensor);
    if (std::has_single_bit(unsigned_degree)) return at(std::bit_width(unsigned_degree) - 1);
    return powers + at(std::ranges::find(other_degrees_, tensor) - other_degrees_.begin());
  }
  std::size_t index(const Way& way) const {
    const std::size_t degrees = powers + other_degrees_.size();
    return ((at(way.type) * degrees + number_of_degree(way.tensor)) * modes + static_cast<std::size_t>(way.recompute)) * layouts +
           (way.shares_tokens ? 1 : 0);
  }
  std::size_t index(const Way& way, int microbatch) const { return index(way) * numbers_of_sizes + number_of_size(microbatch); }
  /// The first devices of the first place that has so many; empty where none has.
  std::vector<Rank> group_of(int type, int tensor) const;
  const LeastPassTime& least_pass(const Way& way, int microbatch) {
    const auto& known = least_passes_[index(way, microbatch)];
    return known ? *known : find_least_pass(way, microbatch);
  }
  const LeastPassTime& find_least_pass(const Way&, int microbatch);
  std::optional<LeastPassTime> bound(const Way&, int microbatch) const;
  std::unique_ptr<LayerCostSample> take(const Way&, int microbatch);
  /// Ours: microbatches of one sequence, on the first type with nodes of this one's size, and what is held once with as many as are looked
  /// at.
  struct Reference {
    int type = 0, most = 1;
    LayerCostSample one;
    double beside_of_most = 0, once_of_most = 0, once_in_one_stage_of_most = 0;
  };
  const Reference& reference(const Way&);
  std::optional<Reference> measure_reference(const Way&);
  std::unique_ptr<LayerCostSample> from_reference(const Reference&, int type, int microbatch, const LeastPassTime&) const;
  static double beside(const std::vector<PlanEvaluator::StageCost>&, int tensor);
  std::unique_ptr<LayerCostSample> measure_plan(const Way&, int microbatch);
  const std::array<double, 3>* held_once(const Way&, const Evaluation* of_one_sequence);
  void add_communication(LayerCostSample&, int tensor) const;
  plan::Plan small_plan(const Way&, int microbatch, int microbatches, std::span<const int> layers) const;
  std::optional<Evaluation> forecast_small_plan(const Way&, int microbatch, int microbatches);

  const DevicePool& device_pool_;
  PlanEvaluator& evaluator_;
  cluster::Profile first_devices_;                          ///< of each type's places
  std::unique_ptr<simulate::ProgramForecaster> bounds_;     ///< of what runs on them
  std::vector<std::optional<LeastPassTime>> least_passes_;  ///< as known_
  std::vector<std::unique_ptr<LayerCostSample>> known_;     ///< by way (type, degree, recomputation, shared tokens) and size of microbatch
  std::vector<std::optional<std::array<double, 3>>> held_;  ///< by way, on whatever type
  std::vector<int> other_degrees_;                          ///< that are no powers of two
  std::vector<std::optional<Reference>> references_;        ///< by way
  std::array<double, 3> elements_{};                        ///< of embedding, a block and the head
  double token_embedding_share_ = 0;                        ///< of the embedding's elements
  std::int64_t taken_ = 0;
};

}  // namespace flotilla::search::pool
