#pragma once
#include <string>
#include <vector>

#include "replica_plans.hpp"

/// What the planner by our own forecast promises, looked at over many random instances. Each prints one line of what it measured.
namespace flotilla::fixture {

/// A range of seeds, [first, last).
struct Seeds {
  int first = 0, last = 0;
};

/// Ratios to what should have been, sorted.
struct Ratios {
  std::vector<double> all;
  void add(double ratio) { all.push_back(ratio); }
  double at(double share);           ///< of them are below
  double share_up_to(double ratio);  ///< of them
  std::string in_words(const char* of);
};

search::PlanAnswer plan(const Instance&);

/// Answers are what they say: valid, inside the pool, the memory, the limits and the restrictions, and forecast the same by the judge; no
/// plan that anybody knows is below the bound.
void expect_sense(Seeds, const Range&);
/// No plan of the space is below the floor: random candidates and variants of them, and stages with replica counts of their own.
void expect_floor(Seeds, const Range&, int plans_each);
/// The median of |estimate / forecast - 1| over random candidates is at most `most`.
void expect_close_estimates(Seeds, const Range&, int candidates_each, double most);
/// The same plan for the same request, and as good a one for the pool in another order.
void expect_deterministic(Seeds, const Range&);
/// Feasible exactly when plain enumeration is; never worse by more than `most_worse`, and equal within 0.1 % in at least `mostly`.
void expect_as_good_as_enumeration(Seeds, const Range&, double most_worse, double mostly);
/// A larger pool, a looser limit, more memory, faster links: the floor is never higher.
void expect_monotone_floor(Seeds, const Range&);
/// A larger pool, another type, more memory, faster links, one of them for each seed: worse than before by no more than the stated gap, so
/// never where the search ends with none.
void expect_bound_keeps_smaller_pools(Seeds, const Range&);
/// With nothing fixed never worse than with any one of schedules, sequence parallelism and sharding fixed by more than `most_worse` in at
/// least `mostly` of the pairs.
void expect_no_fixed_option_better(Seeds, const Range&, double most_worse, double mostly);
/// A larger pool, a looser limit, more memory: never worse where the search finishes (which it rarely does), and where it does not never
/// worse by more than `most_worse` in at least `mostly` of the pairs.
void expect_monotone(Seeds, const Range&, double most_worse, double mostly);

}  // namespace flotilla::fixture
