#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "flotilla/cluster/transports.hpp"
#include "group_correction.hpp"
#include "network_cost.hpp"

namespace flotilla::simulate {

/// What messages and collectives take from device to device over one transport: a profile of its own, which devices it joins, and what
/// whole groups of them make of it. Holds a reference to the profile given.
class BetweenGpus {
 public:
  BetweenGpus(const cluster::Profile& all, cluster::Transport);

  cluster::Transport transport() const { return transport_; }
  /// Whether it joins the members of a group that sums so.
  bool joins(const std::vector<Rank>& members, bool by_library);
  Cost message(Rank from, Rank to, Bytes size, const Flows& flows) { return costs_.message(from, to, size, flows); }
  Cost collective(program::CollectiveKind, const program::Group&, Bytes bytes, Bytes element, const Flows&);
  Cost sum_over_many(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows&);
  /// Equal where equal exchanges take equally long.
  std::uint64_t path(Rank from, Rank to);
  std::uint64_t path(const program::Group&);

 private:
  std::uint64_t marked(std::uint64_t path) const { return joined(path, static_cast<std::uint64_t>(transport_)); }
  GroupCorrection::Predict by_pairs();

  const cluster::Transport transport_;
  const cluster::Profile& all_;
  const cluster::Profile profile_;  ///< as devices see it that exchange by this transport alone
  NetworkCost costs_;
  GroupCorrection ordered_, by_library_;
  std::map<std::pair<std::vector<Rank>, bool>, bool> joined_;
};

}  // namespace flotilla::simulate
