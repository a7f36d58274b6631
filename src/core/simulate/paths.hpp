#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "route.hpp"

namespace flotilla::simulate {

/// Routes between ranks, with equal routes told by equal numbers. Published fits of the two types and zones come first, else
/// cluster::link_between has the word; they are asked once for each pair of hosts that the profile can tell apart.
class Paths {
 public:
  explicit Paths(const cluster::Profile&);

  /// Throws Error{bad_input} for a rank that the profile does not have, or a level of links it does not hold.
  int between(Rank from, Rank to);
  const Route& route(int path) const { return routes_[static_cast<std::size_t>(path)]; }
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
  int number_of(Route);
  Route route_between(Rank from, Rank to) const;

  const cluster::Profile& profile_;
  std::unordered_map<int, std::size_t> index_;    ///< rank -> position in profile.devices, where it is not the rank itself
  std::vector<Place> places_;                     ///< by position
  std::unordered_map<std::uint64_t, int> known_;  ///< (site, site, same host) -> path
  std::deque<Route> routes_;                      ///< by path: the first of that shape
};

}  // namespace flotilla::simulate
