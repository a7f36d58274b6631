#pragma once
#include "zone_assigner.hpp"

namespace flotilla::search::rules {

/// As a plan for the rest of the program: fp32, 1F1B, no recomputation, the batch dealt as evenly as it goes.
plan::Plan plan_of(const FormulaProblem&, const sailor::SailorPlan&);
/// In words: what was searched.
std::string space_of(const FormulaProblem&);
/// One line: why there is no plan. `free`: the answer without limits, if there are any.
std::string why_none(const FormulaProblem&, const std::optional<PlanAnswer>& free);

}  // namespace flotilla::search::rules
