#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::simulate {

/// What a collective library finds among some devices of a node without a switch, none of whose links it uses twice in one direction.
struct NodeShape {
  int rings = 0;   ///< once through all devices and back; each way round counts, as links carry both ways
  int chains = 0;  ///< once through all devices, up and down the same links
};

/// Of at most 16 devices, by their numbers in the node. Grows with the number of ways through them.
NodeShape shape_of(const cluster::NodeLinks&, const std::vector<int>& devices);

}  // namespace flotilla::simulate
