#pragma once
#include <string>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/program/program.hpp"
#include "workbench.hpp"

namespace flotilla::probe {

/// What costs time per element of a tensor, whatever its shape.
struct ElementTime {
  std::string operation;  ///< "adamw", "squared_norm" (of gradients), "cast" (fp32 -> precision), "add" (to a sum, as collectives do: bf16
                          ///< is added in fp32 and rounded)
  Seconds per_million;
  double relative_scatter = 0;
};

/// A part of the model as a device trains it: its tensors one after the other, blocks first, as far as `most` elements go; the last one is
/// cut off there.
program::Part training_part(const model::Config&, std::int64_t most);

/// All of them, in this order, on vectors of the model's parameter count, or of 16 Mi elements, on a GPU 256 Mi, if that is less: what a
/// small model's optimizer finds in cache it finds there here too, and a large one's comes from memory. AdamW goes tensor by tensor
/// (training_part), so that its time has what starting the small ones costs. On the setup's device, but for "add". The host's times are
/// read off `clock`. `memory`: what the device may use; a quarter of it is taken at most.
std::vector<ElementTime> element_times(const compute::Setup&, Seconds budget, Bytes memory, Clock clock = now);

}  // namespace flotilla::probe
