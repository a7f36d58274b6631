#pragma once
#include <vector>

#include "flotilla/program/program.hpp"
#include "flotilla/schedule/passes.hpp"

namespace flotilla::program {

/// Instructions in issue order within one microbatch (forward, backward) or one step (closing; the opening instructions zero what
/// accumulates).
struct Phases {
  const std::vector<int>& opening;
  const std::vector<int>& forward;
  const std::vector<int>& backward;
  const std::vector<int>& weights;  ///< of split backward passes, where these are deferred
  const std::vector<int>& closing;
  std::vector<std::vector<int>> weights_by_layer = {};  ///< the same, each layer's in their order
};

/// The loops of a class: its phases in the order of its passes. Where the backward phase is not a training step's (the head's of an
/// evaluation), it follows each forward phase.
std::vector<Block> loops(const schedule::PassOrder&, bool training, const Phases&);

}  // namespace flotilla::program
