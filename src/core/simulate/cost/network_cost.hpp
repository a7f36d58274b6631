#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/program/collectives.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/simulate/instruction_cost.hpp"
#include "network/paths.hpp"
#include "network/subgroup_shape.hpp"
#include "type_costs.hpp"

namespace flotilla::simulate {

/// One after the other; `estimated` where the larger part is.
Cost combine(const Cost&, const Cost&, const Cost&);
/// A hash of both.
std::uint64_t joined(std::uint64_t seed, std::uint64_t value);

/// What messages and collectives take over the links of a profile, between hosts, with the copies of GPUs at their ends, or from device to
/// device (cluster::over). Remembers what it was asked. Holds a reference to the profile.
class NetworkCost {
 public:
  /// `types`: of this profile; its own where null.
  NetworkCost(const cluster::Profile&, std::shared_ptr<TypeCosts> types);
  NetworkCost(const NetworkCost&) = delete;
  NetworkCost& operator=(const NetworkCost&) = delete;

  Cost message(Rank from, Rank to, Bytes, const Flows&);
  Cost collective(program::CollectiveKind, const program::Group&, Bytes bytes, Bytes element, const Flows&);
  /// ProfileCost::sum_over_many.
  Cost sum_over_many(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows&);
  /// Equal for groups whose collectives take equally long.
  std::uint64_t path(const program::Group&);

  const std::shared_ptr<TypeCosts> types;
  Paths paths;
  bool library_sums = true;  ///< links that join devices are NCCL's, which has an all-reduce of its own

 private:
  Cost add(const std::string& type, double count, Bytes element);
  Cost exchange(const Paths::GroupTopology&, Bytes, std::size_t members, const Flows&) const;
  std::optional<Cost> half_sum(const Paths::GroupTopology&, Bytes piece, std::size_t members, const Flows&) const;
  Cost all_reduce(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows&);
  Cost reduce_scatter(const program::Group&, Bytes bytes, Bytes element, const Flows&);
  Cost all_gather(const program::Group&, Bytes, const Flows&);
  Cost sum(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows&, bool to_everybody);
  Cost level_of(const std::vector<SubgroupShape>&, bool gives_back, bool adds, Bytes bytes, Bytes element, const Flows&);
  /// What one inner subgroup's exchange at a level depends on.
  struct LevelExchange {
    std::uint64_t topology = 0;  ///< GroupTopology::hash
    std::int64_t piece = 0;
    Bytes element;
    std::size_t subgroups = 0;
    Flows flows;
    bool gives_back = false, adds = false;
    bool operator==(const LevelExchange&) const = default;
  };
  struct LevelExchangeHash {
    std::size_t operator()(const LevelExchange&) const;
  };
  Cost sum_of(const Paths::GroupTopology&, const LevelExchange&);
  Cost remembered_sum_of(const Paths::GroupTopology&, const LevelExchange&);
  Cost in_subgroups(program::CollectiveKind, const program::Group&, Bytes bytes, Bytes element, const Flows&);
  Cost over_network(program::CollectiveKind, const program::Group&, Bytes bytes, Bytes element, const Flows&);
  Cost library(program::CollectiveKind, const program::Group&, Bytes, const Flows&);
  Cost copies(const std::vector<Rank>& members, Bytes given, Bytes taken);
  bool links_join_devices(const std::vector<Rank>& members);

  const cluster::Profile& profile_;
  const bool copies_known_;  ///< of some type
  std::unordered_map<LevelExchange, Cost, LevelExchangeHash> level_exchanges_;
  SubgroupShapeCache subgroup_shapes_{{[this](Rank rank) { return paths.host(rank); }, [this](Rank rank) { return paths.uplink(rank); },
                                       [this](const std::vector<Rank>& ranks) { return paths.group_topology(ranks).hash; }}};
};

}  // namespace flotilla::simulate
