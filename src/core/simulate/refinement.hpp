#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/program/program.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

using Hash = std::uint64_t;

/// First slot of `binding` that names `peer`, or -1.
int slot_of(const program::RankBinding&, Rank peer);

/// Colour refinement of a program's ranks, as find_kinds() tells. Numbers stand where sets are meant: two sets with one 64-bit hash would
/// be taken for equal.
class Refinement {
 public:
  Refinement(const program::Program&, const InstructionCost&);

  /// By rank, numbered in order of their first rank; -1 for ranks that idle.
  const std::vector<int>& colors() const { return color_; }
  /// A message or a collective (scalars aside) has its ends on several hosts.
  bool leaves_hosts() const { return leaves_hosts_; }
  /// Equal for groups with equally many members of each colour and slot, over equal paths.
  Hash hash_of_group(std::size_t group) const { return group_hash_[group]; }
  /// Equal for hosts with equally many ranks of each colour.
  Hash hash_of_host(Rank rank) const { return host_hash_[static_cast<std::size_t>(host_[rank.index()])]; }
  std::vector<Rank> ranks_beside(Rank) const;

 private:
  struct Edge {
    int peer = -1;
    Hash label = 0;  ///< both ends' slots, both directions' paths, and whether they lie on one host
  };

  void find_hosts(const InstructionCost&);
  void add_edges(const InstructionCost&);
  void add_groups(const InstructionCost&);
  Hash label_of(Rank rank, Rank peer, const InstructionCost&) const;
  bool spans_hosts(const program::Group&) const;
  bool settle(bool with_hosts, int most);
  int refine(bool with_hosts);
  Hash key(int color) const { return color < 0 ? 0 : keys_[static_cast<std::size_t>(color)]; }
  void number_colors();
  void hash_groups();
  void hash_hosts();

  const program::Program& program_;
  std::vector<int> color_, host_;                      ///< by rank
  std::vector<std::size_t> first_edge_, first_group_;  ///< by rank, and the end
  std::vector<Edge> edges_;
  std::vector<int> groups_;
  std::vector<Hash> keys_;  ///< by colour
  std::vector<Hash> group_path_, group_hash_, host_hash_;
  bool leaves_hosts_ = false;
};

}  // namespace flotilla::simulate
