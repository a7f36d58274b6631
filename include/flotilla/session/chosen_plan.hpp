#pragma once
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/simulate/forecast.hpp"

namespace flotilla::session {

/// A plan and where it comes from.
struct ChosenPlan {
  plan::Plan plan;              ///< bound to ranks of the job
  cluster::Profile profile;     ///< what its forecast rests on
  std::string origin;           ///< "--plan small.json", "kept from step 120", "searched: 34 plans in 12 ms, 120 excluded"
  simulate::Forecast forecast;  ///< with its timeline; on one rank alone: rank 0 of the world, later the first of those with work
};

}  // namespace flotilla::session
