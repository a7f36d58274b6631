#pragma once
#include "zone_assigner.hpp"

namespace flotilla::search::rules {

/// As a plan for the rest of the program: fp32, 1F1B, no recomputation, the batch dealt as evenly as it goes.
plan::Plan plan_of(const FormulaProblem&, const sailor::SailorPlan&);
/// With what it comes to.
RankedPlan pooled(const FormulaProblem&, const FormulaPlan&);
/// Against the best: "3.1 % slower: 0.2 s more sending".
std::string why_lost(const FormulaProblem&, const FormulaPlan&, const FormulaPlan& best);
/// In words: what was searched.
std::string space_of(const FormulaProblem&);
/// One line: why there is no plan for `request`.
std::string why_none(const FormulaProblem&, const cluster::Profile&);

}  // namespace flotilla::search::rules
