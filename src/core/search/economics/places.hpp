#pragma once
#include <vector>

#include "flotilla/search/planner.hpp"

namespace flotilla::search::economics {

/// Devices of one type and zone: what the pool has, what a plan takes, and the largest node of them in the pool.
struct PlaceUse {
  std::string device_type, zone;
  int there = 0, used = 0, per_node = 1;
};
/// In the pool's order; entries of one type and zone together.
std::vector<PlaceUse> uses_of(const Pool&, const cluster::Profile&, const plan::Plan&);

}  // namespace flotilla::search::economics
