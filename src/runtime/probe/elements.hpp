#pragma once
#include <string>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::probe {

/// What costs time per element of a tensor, whatever its shape.
struct ElementTime {
  std::string operation;  ///< "adamw", "cast" (fp32 -> precision), "add" (to a sum, as collectives do: bf16 is added in fp32 and rounded)
  Seconds per_million;
  double relative_scatter = 0;
};

/// All of them, in this order, on vectors of about the model's parameter count within 64 Ki … 16 Mi elements: what a small model's
/// optimizer finds in cache it finds there here too. Times are read off `clock`.
std::vector<ElementTime> element_times(const model::Config&, int length, Precision, int threads, Seconds budget, Seconds (*clock)() = now);

}  // namespace flotilla::probe
