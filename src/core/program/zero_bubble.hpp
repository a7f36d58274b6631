#pragma once
#include "turns.hpp"

namespace flotilla::program {

/// The schedule ZB-H1 (Qi et al. 2023, section 2: https://arxiv.org/abs/2401.10241). 1F1B's order of passes, but a backward pass first
/// makes the gradients of inputs and sends them on; those of weights are made `deferred` microbatches later, the last ones while the
/// pipeline drains. Stage s of P has P - s microbatches between its forward and backward passes and s between the halves of its backward
/// passes: P in all, which is what stage 0 has in 1F1B. Stage 0, which sends no gradient, does not split.
///
/// With forward passes of F, input halves of B and weights' halves of W, n microbatches take n (F + B + W) + (P - 1) (F + B - W) where 1F1B
/// takes n (F + B + W) + (P - 1) (F + B + W).
///
/// A stage that computes its blocks again in the backward pass makes both halves of a microbatch together: deferred ones would need all
/// that was computed again to stay, for each of them. Where blocks drop some of what they keep, what was computed again stays, and fewer
/// are deferred: as many as leave the stage with what stage 0 holds.
Halves halves_of(const plan::Plan&, int stage);
/// 1F1B's order with the weights' halves in it.
PassOrder with_weights(PassOrder, int deferred);

}  // namespace flotilla::program
