#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "../tuning.hpp"
#include "flotilla/search/planner.hpp"

namespace flotilla::search::pool {

constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct CandidatePlan;

/// Devices of one type in one zone.
struct Place {
  int type = 0;  ///< of DevicePool::types
  std::string zone;
  int count = 0;
  Rank first;           ///< of its devices in DevicePool::profile
  int zone_number = 0;  ///< of DevicePool::zones
  double usd = 0;       ///< of one device, per second; 0: not known
  double price = 0;     ///< the same in the objective's unit: USD, billing units, joules; 0 where it is throughput
};

struct PoolType {
  std::string name;
  int count = 0, per_node = 1;
  int widest = 1;  ///< most devices of a tensor-parallel group: a node's, or those of several nodes where links let them (wide_groups.hpp)
  Bytes memory;
  double usd = 0, price = 0;  ///< the least of its places
  std::vector<int> places;
};

/// What may be taken, and what taking it costs.
class DevicePool {
 public:
  /// Of a checked request; throws Error{bad_input} where a price is missing. The pool's devices are listed in `profile`, place by place,
  /// node by node. `ranks`: whose devices they are; plans then take the first ones, as many as they need.
  DevicePool(const PlanRequest&, const cluster::Profile& library, const cluster::Profile* ranks = nullptr);

  /// Tensor-parallel groups of that degree, each inside a node or in whole ones.
  int groups(int place, int tensor) const { return groups(place, tensor, places[at(place)].count); }
  /// The same of `some` of the place's devices.
  int groups(int place, int tensor, int some) const;
  /// Whether the nodes of the pool hold the devices, every tensor-parallel group inside one node or in whole ones.
  bool holds(const plan::Plan&) const;
  bool holds(const CandidatePlan&) const;
  /// Where the devices are ranks: whether none of them is left idle before one that works, as plan::validate asks for.
  bool takes_first_ranks(const CandidatePlan&) const;
  bool by_throughput() const { return request.objective.goal == Goal::throughput; }

  const PlanRequest& request;
  std::vector<PoolType> types;
  std::vector<Place> places;
  std::vector<std::string> zones;
  cluster::Profile profile;
  std::vector<int> cuts;  ///< by constraints: layer boundaries of all stages; empty: searched
  int devices = 0;
  /// Of tensor-parallel groups, ascending: powers of two, divisors of nodes that have other sizes, and the one that is fixed.
  std::vector<int> degrees;
  bool has_degree(int tensor) const { return std::ranges::binary_search(degrees, tensor); }
  int largest_microbatch = 1;  ///< in sequences: of the batch, as far as times are believed

 private:
  /// Tensor-parallel groups of one degree.
  struct Groups {
    int place = 0, tensor = 1;
    std::int64_t count = 0;
  };
  bool holds(std::vector<Groups>&) const;
  static int groups_of_nodes(int per_node, int tensor, int devices);

  /// Devices of one type in one zone that fill nodes of the type's size in this pool, and those of one more node.
  struct Nodes {
    int devices = 0, rest = 0;
  };
  void count_nodes(const PoolEntry&, const cluster::Profile& library, Nodes&) const;
  void add(const std::string& device_type, const std::string& zone, int count);
  void list_devices();
  void list_ranks(const cluster::Profile&);
  void forget_the_rest();
  void set_prices();
  int largest_believed() const;
  void set_degrees();

  std::vector<std::vector<int>> ranks_;  ///< by place, ascending; empty: the devices are nobody's
};

}  // namespace flotilla::search::pool
