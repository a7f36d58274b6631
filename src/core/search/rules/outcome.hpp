#pragma once
#include "realise.hpp"

namespace flotilla::search::rules {

/// As a plan for the rest of the program: fp32, 1F1B, no recomputation, the batch dealt as evenly as it goes.
plan::Plan plan_of(const Problem&, const simulate::SailorPlan&);
/// What keeps the plan from being better, in a few words.
std::string binding(const Problem&, const Candidate&);
/// One line: why there is no plan for `request`.
std::string why_none(const Problem&, const cluster::Profile&, const std::vector<Measures>&);

}  // namespace flotilla::search::rules
