#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "node_shape.hpp"
#include "route.hpp"

namespace flotilla::simulate {

/// Routes between ranks, with equal routes told by equal numbers. Published fits of the two types and zones come first, else
/// cluster::link_between has the word; they are asked once for each pair of hosts that the profile can tell apart.
class Paths {
 public:
  Paths(const cluster::Profile&, const FitsByTypes&);

  /// Throws Error{bad_input} for a rank that the profile does not have, or a level of links it does not hold.
  int between(Rank from, Rank to);
  const Route& route(int path) const { return routes_[static_cast<std::size_t>(path)]; }
  /// What joins the members of a group.
  struct GroupTopology {
    std::vector<int> paths;          ///< every path that joins two members, ascending
    std::vector<std::string> types;  ///< of the members' devices, ascending
    int members = 0, most_of_a_host = 0, least_of_a_host = 0;
    /// Of an uplink that some members stand behind and others do not.
    struct Behind {
      BytesPerSecond uplink;
      int members = 0;
      auto operator<=>(const Behind&) const = default;
    };
    std::vector<Behind> behind{};  ///< distinct, ascending
    std::uint64_t hash = 0;        ///< of all this
  };
  /// Remembered, since programs ask for a group again and again. The answer holds until the next call.
  const GroupTopology& group_topology(const std::vector<Rank>& members);
  const std::vector<int>& inside(const std::vector<Rank>& members) { return group_topology(members).paths; }
  /// Equal numbers for ranks of one host.
  int host(Rank rank) const { return place(rank).host; }
  /// Equal numbers for ranks behind one uplink, below 0 for those behind none.
  int uplink(Rank rank) const { return place(rank).uplink; }
  /// Rings and chains among devices of one type on one host, where that type says which are joined, and the rate of one link; remembered.
  struct NodeWays {
    NodeShape shape;
    BytesPerSecond each;
  };
  std::optional<NodeWays> node_ways(const std::vector<Rank>& members);
  /// What a member of a group on one host sends to the switch that adds (DeviceType::switch_sums), the slowest member's; 0: it adds
  /// nothing.
  BytesPerSecond switch_sums(const std::vector<Rank>& members) const;
  const cluster::Device& device(Rank rank) const { return profile_.devices[position(rank)]; }

 private:
  struct PathPlace {
    Rank rank;
    int host = -1;         ///< equal on one host
    int instruction = -1;  ///< hosts that links name have their own; the others of a zone share one
    int spot = -1;         ///< this instruction's part of this host
    int type = -1;
    int uplink = -1;  ///< of the profile's
  };
  /// What has been seen of a instruction in one group; one pair of its ranks on one host and one on two hosts stand for all such pairs.
  struct PathVisit {
    int number = 0;  ///< of the group, else it is from an earlier one
    Rank first, elsewhere;
    bool shares_a_host = false;
  };
  struct Remembered {
    std::vector<Rank> members;
    GroupTopology group_topology;
  };
  bool on_one_spot(const std::vector<Rank>& members) const;
  GroupTopology look_at(const std::vector<Rank>& members);
  std::vector<GroupTopology::Behind> behind_uplinks(const std::vector<Rank>& members) const;
  void visit(Rank);
  void join(const PathVisit& instruction, const PathVisit& other);
  void add_path(Rank from, Rank to);
  std::size_t position(Rank rank) const {
    const bool as_numbered = rank.valid() && rank.index() < places_.size() && places_[rank.index()].rank == rank;
    return as_numbered ? rank.index() : position_of_other(rank);
  }
  std::size_t position_of_other(Rank) const;
  const PathPlace& place(Rank rank) const { return places_[position(rank)]; }
  int number_of(Route);
  Route route_between(Rank from, Rank to) const;

  const cluster::Profile& profile_;
  const FitsByTypes& fits_;
  std::unordered_map<int, std::size_t> index_;            ///< rank -> position in profile.devices, where it is not the rank itself
  std::vector<PathPlace> places_;                         ///< by position
  std::vector<int> known_;                                ///< of few instructions: (instruction, instruction, same host) -> path, or -1
  std::unordered_map<std::uint64_t, int> known_of_many_;  ///< of many: only pairs that were asked for
  std::deque<Route> routes_;                              ///< by path: the first of that shape
  std::vector<std::string> types_;                        ///< of devices
  std::vector<PathVisit> visits_;                         ///< by instruction
  struct Seen {
    int number = 0;
    Rank first;
    int members = 0;
  };
  std::vector<Seen> on_host_, on_spot_;  ///< the first member there of the group of that number
  std::vector<int> visited_;             ///< instructions of the group at hand
  std::vector<int> group_of_path_;       ///< by path: the last group in which it was seen
  std::vector<int> paths_;               ///< of the group at hand
  int group_ = 0;                        ///< its number
  std::unordered_map<std::uint64_t, Remembered> remembered_;
  /// By instruction, type and members, who all stand on one host and are of that type.
  std::map<std::tuple<int, int, std::size_t>, GroupTopology> on_one_spot_;
  std::size_t remembered_ranks_ = 0;
  std::map<std::pair<int, std::vector<int>>, NodeShape> node_shapes_;  ///< by type and devices of a node
};

}  // namespace flotilla::simulate
