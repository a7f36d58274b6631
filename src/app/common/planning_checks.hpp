#pragma once
#include "app/common/planning_options.hpp"
#include "flotilla/cluster/library.hpp"
#include "flotilla/search/planner.hpp"

namespace flotilla::app {

/// Throws Error{bad_input} naming the option, every type of the pool that lacks the figure and how to say it, where the objective or a
/// limit, or time against cost, needs prices or billing weights.
void require_figures(const PlanningOptions&, const search::Objective&, const search::Pool&, const cluster::Profile&);

/// Iterations of the run that the options tell; 0: they tell none. Throws Error for tokens that are not written as a number.
std::int64_t iterations_of(const PlanningOptions&, const search::PlanRequest&);

/// Throws Error{usage, bad_input} where the cost model cannot explain its answers, and the options ask for that.
void require_explanations(const PlanningOptions&);

/// Warns of places of the pool between whose nodes the profiles know no links.
void warn_of_missing_links(const PlanningOptions&, const search::Pool&, const cluster::Profile& library);

}  // namespace flotilla::app
