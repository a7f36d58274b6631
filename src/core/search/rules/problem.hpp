#pragma once
#include <vector>

#include "flotilla/search/pool_planner.hpp"
#include "flotilla/simulate/sailor_rules.hpp"

namespace flotilla::search::rules {

/// Pool entries of one type and zone.
struct Entry {
  int group = 0;
  int zone = -1;  ///< the tables' number
  int count = 0, per_node = 1;
};
/// All devices of one type: the resource of the relaxed search, which does not look at zones.
struct Group {
  int type = 0;
  int count = 0;
  double memory = 0;  ///< bytes
  double price = 0;   ///< of a device-hour: what the goal counts (USD for throughput), so that value = hours x price (+ egress of USD)
  std::vector<int> entries;
};
/// A way to run a replica, but for its zone.
struct Kind {
  int group = 0, tensor = 1;
  std::vector<int> entries;  ///< whose nodes take it
  int most_in_one = 0;       ///< replicas that the largest of them takes
};

/// The request in the tables' numbers.
struct Problem {
  Problem(const PoolRequest&, const cluster::Profile&);

  simulate::SailorKind at(int kind, int entry) const;
  /// The goal is devices' time x price, not time alone.
  bool by_price() const { return request.objective.goal != Goal::throughput; }
  /// Prices are USD and all known; then egress counts, and limits in USD bound.
  bool in_usd() const;

  const PoolRequest& request;
  simulate::SailorTables tables;
  std::vector<Entry> entries;
  std::vector<Group> groups;
  std::vector<Kind> kinds;
  std::vector<int> sequences;  ///< microbatch sizes that were measured, at most the global batch
  int devices = 0;             ///< in the pool
};

}  // namespace flotilla::search::rules
