#pragma once
#include "app/common/planning_options.hpp"
#include "flotilla/cluster/library.hpp"

namespace flotilla::app {

/// Throws Error{bad_input} naming the option, every type of the pool that lacks the figure and how to say it, where the objective or a
/// limit needs prices or billing weights.
void require_figures(const PlanningOptions&, const search::Objective&, const search::Pool&, const cluster::Profile&);

/// Warns of places of the pool between whose nodes the profiles know no links.
void warn_of_missing_links(const PlanningOptions&, const search::Pool&, const cluster::Profile& library);

}  // namespace flotilla::app
