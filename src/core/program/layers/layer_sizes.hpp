#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/model/operations.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/runtime.hpp"

namespace flotilla::program {

/// Replicas that hold the experts of a stage once (LayerRuntime::expert_parallel).
int expert_group(const plan::Plan&, const LayerRuntime&);

/// What a layer keeps on one device in a described runtime: from measured sizes of the model and tensor degree where the runtime has them,
/// else by formula (Korthikanti et al. 2022, section 4: https://arxiv.org/abs/2205.05198, for any element size).
class LayerSizes {
 public:
  LayerSizes(const plan::Plan&, const std::vector<model::Tensor>&, const Runtime&);

  /// Elements of layers [first, last). A token embedding that both ends of a stage use counts once.
  std::int64_t parameters(int first, int last, int tensor_parallel) const;
  /// Of these, what experts have: their part is kept by the replicas of other groups alone.
  std::int64_t expert_parameters(int first, int last, int tensor_parallel) const;
  /// From forward to backward pass of one microbatch.
  Bytes saved(int layer, const model::LayerShape&, plan::Recompute) const;
  /// Of this, what waits in the host's memory instead of the device's; one sequence's.
  Bytes in_host(int layer, const model::LayerShape&, plan::Recompute) const;
  /// In the backward pass, beside what is saved: what is computed again, and temporaries.
  Bytes temporaries(int layer, const model::LayerShape&, plan::Recompute) const;
  /// Whether a layer of a stage that recomputes does: a block, of those that are spread evenly.
  bool repeats(int layer) const;
  /// One sequence's activations between two layers.
  Bytes boundary() const;

 private:
  const cluster::LayerSize* measured(int layer, int tensor_parallel) const;
  bool stores_scores() const;
  bool waits_in_host(int layer) const;
  Bytes kept(int layer, const model::LayerShape&, plan::Recompute) const;
  Bytes between_products(int layer, const model::LayerShape&) const;
  std::int64_t dispatched(int layer, const model::LayerShape&) const;
  Bytes converted(int layer, const model::LayerShape&) const;
  Bytes without_recompute(int layer, const model::LayerShape&) const;
  /// fp32 logits of the whole vocabulary; what the head puts out where that was measured.
  Bytes logits(int layer, const model::LayerShape&) const;
  Bytes scores(const model::LayerShape&, double copies, bool mask) const;

  const plan::Plan& plan_;
  const std::vector<model::Tensor>& tensors_;
  const Runtime& runtime_;
  const int expert_group_;
};

}  // namespace flotilla::program
