#pragma once
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "bench.hpp"

namespace flotilla::search::pool {

/// What a layer takes of one replica's device.
struct Part {
  double pass = 0;         ///< seconds of one microbatch, forward and backward, with what is recomputed and the group's collectives
  double update = 0;       ///< seconds of the optimizer
  double state = 0;        ///< bytes from step to step: weights, gradients, moments, and a described runtime's copies of them
  double activations = 0;  ///< bytes for every microbatch in flight
  double shareable = 0;    ///< of `state`: what replicas may share out among them (plan::Plan::shard_optimizer)
};

/// The layers of a model on one type of device, at one tensor degree and microbatch.
struct Sounding {
  bool usable = false;
  Part embedding, block, head;
  double shared = 0;     ///< bytes of state that embedding and head both count: the word table, where one stage holds both
  double beside = 0;     ///< bytes once: workspace, the process, what passes need however many microbatches are in flight
  double neighbour = 0;  ///< bytes for every neighbouring stage
};

/// Seconds of one microbatch through a layer, forward and backward, at least: what a sounding finds, without its small plan. Only times.
struct LeastPass {
  bool usable = false;
  double embedding = 0, block = 0, head = 0;
};

/// Learns what layers cost from forecasts of small plans (embedding, blocks and head as three stages of one replica, three microbatches),
/// so whatever runtime the forecast knows, the search knows. A device's passes do not depend on its neighbours, so that they are the whole
/// plan's. Our runtime's memory does not depend on the type and grows evenly with the microbatch: two sizes on one type tell it for all,
/// and times come from the forecaster's bound of a layer, which leaves out only what members of a tensor-parallel group wait for each other
/// (0.3 % of a block).
class Soundings {
 public:
  Soundings(const Stock&, Bench&);

  const Sounding& of(int type, int tensor, int microbatch, plan::Recompute);
  /// For what is to be ranked or ruled out: a small fraction of the work of a sounding where the runtime is ours.
  const LeastPass& least_pass(int type, int tensor, int microbatch, plan::Recompute);
  /// Bytes of a device with layers [first, last) and one microbatch, at least; 0 where nothing is known without a sounding.
  double least_bytes(int first, int last, int tensor, int microbatch, plan::Recompute) const;
  /// What the forecaster's bound of a plan says of embedding, a block and the head; nothing where it knows too little.
  std::optional<std::array<simulate::LayerBound, 3>> layer_bounds(int type, int tensor, int microbatch, plan::Recompute,
                                                                  bool sequence_parallel) const;
  /// Of our runtime; nullptr for a described one.
  const simulate::BoundedForecaster* bounds() const { return bounds_.get(); }
  bool knows(int type, int tensor, int microbatch, plan::Recompute recompute) const {
    return known_[index(type, tensor, microbatch, recompute)] != nullptr;
  }
  std::int64_t taken() const { return taken_; }

 private:
  std::size_t index(int type, int tensor, int microbatch, plan::Recompute) const;
  std::optional<LeastPass> bound(int type, int tensor, int microbatch, plan::Recompute) const;
  std::unique_ptr<Sounding> take(int type, int tensor, int microbatch, plan::Recompute);
  std::unique_ptr<Sounding> sound(int type, int tensor, int microbatch, plan::Recompute);
  /// Of microbatches of one sequence and of as many as are looked at, on the first type with nodes of this one's size.
  struct Reference {
    int type = 0, most = 1;
    std::unique_ptr<Sounding> one, many;
    bool usable() const { return one && one->usable && many->usable; }
  };
  const Reference& reference(int type, int tensor, plan::Recompute);
  std::unique_ptr<Sounding> from_reference(const Reference&, int type, int microbatch, const LeastPass&) const;
  const std::array<double, 3>* held_once(int type, int tensor, plan::Recompute, const Trial* of_one_sequence);
  void add_communication(Sounding&, const simulate::MemoryForecast& block, int tensor) const;
  std::optional<Trial> small_plan(int type, int tensor, int microbatch, plan::Recompute, int microbatches);

  const Stock& stock_;
  Bench& bench_;
  cluster::Profile first_devices_;                          ///< of each type
  std::unique_ptr<simulate::ProgramForecaster> bounds_;     ///< of what runs on them
  std::vector<std::optional<LeastPass>> least_passes_;      ///< as known_
  std::vector<std::unique_ptr<Sounding>> known_;            ///< by type, logarithm of the degree, size of microbatch, recomputation
  std::vector<std::optional<std::array<double, 3>>> held_;  ///< by logarithm of the degree, and recomputation
  std::vector<std::optional<Reference>> references_;        ///< by type, logarithm of the degree, and recomputation
  double word_share_ = 0;                                   ///< of the embedding's elements
  std::int64_t taken_ = 0;
};

}  // namespace flotilla::search::pool
