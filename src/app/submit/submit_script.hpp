#pragma once
#include <string>
#include <vector>

#include "flotilla/plan/plan.hpp"
#include "flotilla/slurm/script.hpp"
#include "slurm_offers.hpp"

namespace flotilla::app {

/// What a plan takes of one offer.
struct Taken {
  SlurmOffer offer;
  int nodes = 0;
  int per_node = 0;      ///< ranks on each
  int fewest_nodes = 0;  ///< that still fit the model, all components at their fewest
  bool whole_nodes() const { return offer.whole && per_node == offer.per_node; }
};

/// What the plan takes of the offers, in their order: those that it takes nothing of are left out. Nodes are filled as the forecast does
/// it.
std::vector<Taken> taken_by(const plan::Plan&, const PlanningTask&, const std::vector<SlurmOffer>&);

/// Billing units of an hour of all that is asked for.
double units_per_hour(const std::vector<Taken>&);

/// The script's content. `program` and `folder` are absolute. Throws Error{usage, unavailable}.
slurm::Script script_for(const std::vector<Taken>&, const SubmitOptions&, Precision, const std::vector<std::string>& remarks);

}  // namespace flotilla::app
