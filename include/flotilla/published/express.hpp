#pragma once
#include <optional>
#include <string>

#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/runtime.hpp"
#include "flotilla/published/run.hpp"

namespace flotilla::published {

/// A published run in our terms.
struct Expressed {
  plan::Plan plan;           ///< bound to the profile's devices
  cluster::Profile profile;  ///< the run's cluster, from the catalogue and the network that the run states
  program::Runtime runtime;
};

/// Either the run, or why it cannot be expressed: a phrase to count by ("experts", "runtime paxml").
struct Expression {
  std::optional<Expressed> run;
  std::string reason;
};

/// Ranks stand as Megatron and DeepSpeed put them: tensor-parallel groups side by side, then replicas, then stages.
Expression express(const Run&, const cluster::Catalogue&);

}  // namespace flotilla::published
