#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "flotilla/program/program.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

using Hash = std::uint64_t;

/// What ranks share on the way to others: a host's cards, a zone's uplink.
enum class Shared { host, uplink };
constexpr std::size_t index(Shared what) { return static_cast<std::size_t>(what); }

/// First slot of `binding` that names `peer`, or -1.
int slot_of(const program::RankBinding&, Rank peer);

/// Colour refinement of a program's ranks, as partition_ranks() tells. Numbers stand where sets are meant: two sets with one 64-bit hash
/// would be taken for equal.
class Refinement {
 public:
  Refinement(const program::Program&, const InstructionCost&);

  /// By rank, numbered in order of their first rank; -1 for ranks that idle.
  const std::vector<int>& colors() const { return color_; }
  /// A message or a collective (scalars aside) has its ends on several hosts; behind several uplinks.
  bool leaves(Shared what) const { return places_[index(what)].left; }
  /// Equal for groups with equally many members of each colour and slot, over equal paths.
  Hash hash_of_group(std::size_t group) const { return group_hash_[group]; }
  /// Equal for hosts, or uplinks, with equally many ranks of each colour; 0 for ranks behind no uplink.
  Hash hash_of(Shared what, Rank rank) const { return places_[index(what)].hash_of(rank.index()); }
  /// Who shares the rank's host, or uplink.
  std::vector<Rank> ranks_beside(Shared what, Rank) const;

 private:
  struct Edge {
    int peer = -1;
    Hash label = 0;  ///< both ends' slots, both directions' paths, and whether they share host and uplink
  };

  /// Who stands where.
  struct RefinedPlaces {
    std::vector<int> of;     ///< by rank; below 0: nowhere
    std::vector<Hash> hash;  ///< by place
    bool left = false;       ///< some message or collective goes from one to another
    Hash hash_of(std::size_t rank) const { return of[rank] < 0 ? 0 : hash[static_cast<std::size_t>(of[rank])]; }
  };

  void find_hosts(const InstructionCost&);
  void find_uplinks(const InstructionCost&);
  void add_edges(const InstructionCost&);
  void add_groups(const InstructionCost&);
  Hash label_of(Rank rank, Rank peer, const InstructionCost&) const;
  static bool spans(const RefinedPlaces&, const program::Group&);
  bool settle(bool with_places, int most);
  int refine(bool with_places);
  Hash key(int color) const { return color < 0 ? 0 : keys_[static_cast<std::size_t>(color)]; }
  void number_colors();
  void hash_groups();
  void hash_places();

  const program::Program& program_;
  std::vector<int> color_;                             ///< by rank
  std::array<RefinedPlaces, 2> places_;                ///< by Shared
  std::vector<std::size_t> first_edge_, first_group_;  ///< by rank, and the end
  std::vector<Edge> edges_;
  std::vector<int> groups_;
  std::vector<Hash> keys_;  ///< by colour
  std::vector<Hash> group_path_, group_hash_;
};

}  // namespace flotilla::simulate
