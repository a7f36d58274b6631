#pragma once
#include <string>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "workbench.hpp"

namespace flotilla::probe {

/// What costs time per element of a tensor, whatever its shape.
struct ElementTime {
  std::string operation;  ///< "adamw", "cast" (fp32 -> precision), "add" (to a sum, as collectives do: bf16 is added in fp32 and rounded)
  Seconds per_million;
  double relative_scatter = 0;
};

/// All of them, in this order, on vectors of about the model's parameter count within 64 Ki … 16 Mi elements: what a small model's
/// optimizer finds in cache it finds there here too. On the setup's device, but for "add". The host's times are read off `clock`.
std::vector<ElementTime> element_times(const compute::Setup&, Seconds budget, Clock clock = now);

}  // namespace flotilla::probe
