#pragma once
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/simulate/forecast.hpp"

namespace flotilla::simulate {

/// Bytes that one step moves from one zone to another.
struct ZoneTraffic {
  std::string from, to;
  double bytes = 0;
  bool operator==(const ZoneTraffic&) const = default;
};

/// Between zones that differ, by (from, to). Messages go from end to end; sums over a group go as program/collectives.hpp says: every
/// member sends each other one its piece, and its own piece, summed, to everybody; those of a library as a ring through the zones.
/// Collectives inside a whole layer of a described runtime are left out: no tensor-parallel group spans zones.
std::vector<ZoneTraffic> traffic_between_zones(const program::Program&, const std::vector<cluster::Device>&);

/// What `seconds` of the devices that the program works on cost, and the egress of one step of it. A figure is absent where the profile
/// lacks a price that it takes; egress is 0 where nothing leaves a zone.
Expense expense_of(const program::Program&, const cluster::Profile&, Seconds);

}  // namespace flotilla::simulate
