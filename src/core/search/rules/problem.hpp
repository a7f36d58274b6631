#pragma once
#include <vector>

#include "flotilla/search/rules_planner.hpp"

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
  double price = 0;   ///< USD per hour
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
  Problem(const RulesRequest&, const cluster::Profile&);

  simulate::SailorKind at(int kind, int entry) const;
  bool by_cost() const { return request.objective.goal == Goal::cost; }
  bool has_prices() const;

  const RulesRequest& request;
  simulate::SailorTables tables;
  std::vector<Entry> entries;
  std::vector<Group> groups;
  std::vector<Kind> kinds;
  std::vector<int> sequences;  ///< microbatch sizes that were measured, at most the global batch
  int devices = 0;             ///< in the pool
};

}  // namespace flotilla::search::rules
