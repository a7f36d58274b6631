#pragma once
#include "flotilla/search/planner.hpp"

/// Plans that are better with certainty: Objective::confidence.
namespace flotilla::search {

/// A plan's value at the upper end of the interval that holds its iteration with that probability. The error bar is the interval of 90 %,
/// and errors are taken as normal: others widen with the quantile.
double value_at_most(const RankedPlan&, double confidence);

/// The profile with each type's memory less what the runtime's forecasts may miss of it: a plan that fits it fits with 99 %.
cluster::Profile with_certain_memory(cluster::Profile, const program::Runtime&, Precision);

/// Adds the plans of `others` that fit the memory of `certain`: their fullest device in the smallest of their types.
void add_certain_plans(PlanAnswer&, const PlanAnswer& others, const cluster::Profile& certain);

/// Of the best plan and the alternatives that fit, the one with the least value at most becomes the best, and the others its alternatives
/// in that order, as many as `kept`. The bound stays what it was, of forecasts: the gap to it may grow.
void prefer_certain(PlanAnswer&, double confidence, int kept);

}  // namespace flotilla::search
