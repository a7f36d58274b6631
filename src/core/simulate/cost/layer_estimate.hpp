#pragma once
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/simulate/instruction_cost.hpp"
#include "network/route.hpp"
#include "operation_cost.hpp"

namespace flotilla::simulate {

/// A whole layer for one microbatch on the devices of one tensor-parallel group, which lie in one node.
struct LayerWork {
  const model::Config& model;
  std::string device_type;
  int layer = 0;
  model::LayerShape shape;
  bool sequence_parallel = false;
};

/// Seconds of a pass from the type's figures: its operations by the roofline (operation_cost.hpp) and ring sums over the links inside a
/// node. With sequence parallelism everything is divided by the degree, norms and dropout too, and a sum is a reduce-scatter and an
/// all-gather of the same bytes.
Cost estimated_pass(const cluster::Profile&, const FitsByTypes&, const Execution&, const LayerWork&, bool backward);
/// What the backward pass repeats: the forward pass, or attention's scores, softmax and weighted sum alone (selective).
Cost estimated_recompute(const cluster::Profile&, const FitsByTypes&, const Execution&, const LayerWork&, plan::Recompute);

/// How a described runtime executes operations.
Execution execution_of(const program::LayerRuntime&, Precision);

/// Of a layer under a plan.
plan::Recompute recompute_of(const plan::Plan&, int layer);

}  // namespace flotilla::simulate
