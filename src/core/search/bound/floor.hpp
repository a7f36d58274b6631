#pragma once
#include <string>

#include "../pool/soundings.hpp"
#include "packing.hpp"
#include "stage_demand.hpp"

/// What no plan of a pool is below, and why. docs/design/planning-bound.md derives it.
namespace flotilla::search::bound {

/// What a plan may not have more of than there is.
struct Resource {
  std::string name;         ///< "devices of A100-40", "devices", "USD per hour", "USD per iteration / seconds"
  double available = 0;
  std::vector<double> use;  ///< of one device, by type
};

/// By prices of resources, a stage costs at least the sum of the layers' potentials over it; all layers together cost more than there is.
struct Floor {
  double value = 0;    ///< of the objective; no plan of the space is below
  double seconds = 0;  ///< the time within which no plan ends; where the objective is not time: within which all must end, or 0
  std::vector<Resource> resources;
  Prices prices;                   ///< of all that is available of each resource
  std::vector<double> potentials;  ///< by layer boundary: the least cost of a plan's stages before it
};

/// `largest`: sequences of the largest microbatch of the space.
Floor floor_of(const pool::Stock&, pool::Soundings&, int largest);

}  // namespace flotilla::search::bound
