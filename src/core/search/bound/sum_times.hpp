#pragma once
#include <vector>

#include "layer_costs.hpp"

/// What gradient sums take at least, whoever takes part.
namespace flotilla::search::bound {

/// Seconds of the all-reduce of each kind of layer's gradients, and of the token embedding's.
struct SumTimes {
  ByKind own{};
  double token_embedding = 0;
};

/// Bytes of a message, and as published fits take them.
struct MessageSize {
  explicit MessageSize(double);
  double bytes, fitted, log;
};

/// All-reduces of our runtime among replicas of which one is of a given type and degree. First those of a host have a sum of their own,
/// then G inner groups exchange pieces of n / (members of one x G) elements, each level twice (docs/design/forecast.md). The links are the
/// fastest that the type has and every number of replicas on its host is tried. Of G it is 2, 3, 4, 6, 8, 12, ... from the last that is not
/// above the least on, so that a lookup costs nothing and more hosts never make the bound smaller.
class SumTable {
 public:
  SumTable(const pool::DevicePool&, const LeastLayerCosts&);
  /// Members on `groups` hosts or more (at least 2). The option is one of LeastLayerCosts::options.
  const SumTimes& between_hosts(const ReplicaOption& option, int groups) { return known(option)[number_of(groups)]; }
  /// Which of the numbers of groups that are told apart stands for so many; 0: the one for two of them.
  std::size_t number_of(int groups) const;
  int groups_of(std::size_t number) const { return groups_[number]; }
  std::size_t numbers() const { return groups_.size(); }
  int hosts() const { return hosts_; }
  int zones() const { return zones_; }

 private:
  /// Seconds of a message of some bytes while `flows` share the card, and of an empty one.
  struct Link {
    const cluster::Link* link = nullptr;
    const cluster::LinkFit* fit = nullptr;
    bool adds = false;              ///< measured as half a sum
    double latency = 0, empty = 0;  ///< seconds of no bytes: of a link, and as seconds() has it
    double alone(double bytes) const;
    double seconds(const MessageSize&, int flows) const;
  };
  using Links = std::vector<Link>;
  SumTimes times(const ReplicaOption&, int groups) const;
  double all_reduce(const ReplicaOption&, double elements, int groups) const;
  static double exchange(const Links&, double bytes, int members, int flows);
  static void drop_twins(Links&);
  bool is_used(const cluster::LinkFit&) const;
  bool touches(const std::string& from, const std::string& to, int type) const;

  const pool::DevicePool& device_pool_;
  const LeastLayerCosts& costs_;
  int zones_ = 1, hosts_ = 0;
  std::vector<Links> between_, inside_;  ///< hosts; by type
  /// For each number of groups, the least over it and all larger ones.
  const std::vector<SumTimes>& known(const ReplicaOption&);
  std::vector<int> groups_;                   ///< numbers of groups that are tried, ascending
  std::vector<std::vector<SumTimes>> known_;  ///< by option, once it was asked for
};

}  // namespace flotilla::search::bound
