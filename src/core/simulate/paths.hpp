#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::simulate {

/// Links between ranks, with equal links told by equal numbers. Which link joins two ranks is cluster::link_between's word; it is asked
/// once for each pair of hosts that the profile's links can tell apart.
class Paths {
 public:
  explicit Paths(const cluster::Profile&);

  /// Throws Error{bad_input} for a rank that the profile does not have, or a level of links it does not hold.
  int between(Rank from, Rank to);
  const cluster::Link& link(int path) const { return *links_[static_cast<std::size_t>(path)]; }
  /// Every path that joins two members, ascending.
  std::vector<int> inside(const std::vector<Rank>& members);
  /// Equal numbers for ranks of one host.
  int host(Rank rank) const { return place(rank).host; }
  const cluster::Device& device(Rank rank) const { return profile_.devices[position(rank)]; }

 private:
  struct Place {
    int host = -1;  ///< equal on one host
    int site = -1;  ///< hosts that links name have their own; the others of a zone share one
  };
  std::size_t position(Rank) const;
  const Place& place(Rank rank) const { return places_[position(rank)]; }
  int number_of(const cluster::Link&);

  const cluster::Profile& profile_;
  std::unordered_map<int, std::size_t> index_;    ///< rank -> position in profile.devices, where it is not the rank itself
  std::vector<Place> places_;                     ///< by position
  std::unordered_map<std::uint64_t, int> known_;  ///< (site, site, same host) -> path
  std::vector<const cluster::Link*> links_;       ///< by path: the first link of that shape
};

}  // namespace flotilla::simulate
