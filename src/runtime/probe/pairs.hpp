#pragma once
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::probe {

/// One link to measure: between two ranks, the first of which sends first.
struct Pair {
  Rank a, b;
  cluster::LinkLevel level = cluster::LinkLevel::node;
  std::string from, to;  ///< as cluster::Link
  bool operator==(const Pair&) const = default;
};

/// Two ranks of every host that has two; the first ranks of every two hosts of a zone; the first ranks of every two zones. Where that would
/// be many (a hundred hosts have 4,950 pairs) a sample: of each level the first hosts, a ring over them, and one more neighbour half-way
/// round. cluster::link_between gives the others the slowest of their level.
std::vector<Pair> pairs(const std::vector<cluster::Device>&);

}  // namespace flotilla::probe
