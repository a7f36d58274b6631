#pragma once
#include <functional>
#include <string>
#include <vector>

#include "flotilla/bench/report.hpp"

/// Links between nodes: which pairs are measured, and what the measurements say.
namespace flotilla::bench {

/// Where a node is. Nodes with the same component and network switch make a group.
struct NodePlace {
  std::string host;
  std::string component;       ///< partition, or component of a heterogeneous job; "" where there is one
  std::string network_switch;  ///< "": not known
  bool operator==(const NodePlace&) const = default;
};

/// Indices of two nodes, a < b.
struct NodePair {
  int a = 0, b = 0;
  auto operator<=>(const NodePair&) const = default;
};

/// Pairs in which every node occurs: a ring in each group, and between groups rings of distance 1, 2, 4, ... whose ends take turns among a
/// group's nodes. At most 2 per node and 2 log2(groups) per group.
std::vector<NodePair> first_pairs(const std::vector<NodePlace>&);

/// The pairs in rounds; in a round no node is in two pairs.
std::vector<std::vector<NodePair>> rounds_of(std::vector<NodePair>);

struct MeasuredPair {
  NodePair pair;
  double bandwidth = 0;  ///< bytes a second
  Seconds latency{};
  bool operator==(const MeasuredPair&) const = default;
};

/// Further pairs that tell which end of an odd pair is odd: each end with up to two nodes none of whose pairs is odd.
std::vector<NodePair> further_pairs(const std::vector<NodePlace>&, const std::vector<MeasuredPair>&);

/// Members of a group whose sums are wrong that make them so: halves of it are tried, then single ones with a member of a half that was
/// right. About 2 log2(members) trials for one faulty member. Empty where no smaller group is wrong: the fault does not come every time.
/// All of two or three where no member is known to be sound.
std::vector<int> faulty_members(const std::vector<int>& members, const std::function<bool(const std::vector<int>&)>& sums_are_right);

/// What stands out.
struct OddLinks {
  std::vector<int> nodes;           ///< most of whose pairs are odd
  std::vector<NodePair> pairs;      ///< odd, although neither end is
  std::vector<std::string> groups;  ///< "component, switch": whose pairs are odd beside those of like groups
  double bandwidth = 0;             ///< median within groups; 0: there are none
  Seconds latency{};                ///< likewise
  bool operator==(const OddLinks&) const = default;
};
/// A pair is odd if it moves less than 0.75 of the median of its like (within groups of a component; between two components' groups), or if
/// its latency is more than 1.5 times their median, and beyond it by 5 us and by 3 x 1.4826 median absolute deviations.
OddLinks odd_links(const std::vector<NodePlace>&, const std::vector<MeasuredPair>&);

/// Nodes that hang on one switch.
struct SwitchGroup {
  std::string name;        ///< as it is known; "": the group was measured
  std::vector<int> nodes;  ///< ascending
  bool operator==(const SwitchGroup&) const = default;
};
/// Nodes by their known switch. The others by what was measured: those that chains of pairs join which move at least 0.75 of the usual full
/// rate, the median over a component's nodes of what each one's best pair moves. Known switches first.
std::vector<SwitchGroup> switch_groups(const std::vector<NodePlace>&, const std::vector<MeasuredPair>&);
/// For nodes whose switch is not known, beside first_pairs(): rings of distance 2, 4, 8, ... among all of a component, so that each has a
/// partner on its own switch, however names lie.
std::vector<NodePair> wide_pairs(const std::vector<NodePlace>&);
/// Pairs of one node each of two measured groups, which tell whether the two are one.
std::vector<NodePair> joining_pairs(const std::vector<NodePlace>&, const std::vector<MeasuredPair>&);

}  // namespace flotilla::bench
