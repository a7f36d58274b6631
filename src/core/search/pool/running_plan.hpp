#pragma once
#include <optional>

#include "candidate_plan.hpp"

namespace flotilla::search::pool {

/// A plan that ran before as a candidate, without the columns for which the pool has no devices any more; nothing where it is not made of
/// columns with microbatches of sizes that are searched, or where no column is left.
std::optional<CandidatePlan> from_running_plan(const plan::Plan&, const DevicePool&);

}  // namespace flotilla::search::pool
