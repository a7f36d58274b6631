#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::probe {

/// Groups of GPUs that are measured whole, because a group of theirs is what plans form and its pairs may hold each other up:
///   inside     the GPUs of a host, where there are at least three: what shares its switches and its PCI bus. One host for each number and
///              type of GPUs
///   one each   the first GPU of every host of a zone with three at least: what shares the network's switches
///   all        all of them, if that is another group still: what shares network cards, too
/// At most so many of a kind; ranks ascending. `on_gpus`: the devices of ranks with a GPU.
std::vector<std::vector<Rank>> candidate_groups(const std::vector<cluster::Device>& on_gpus);
/// Pairs whose sums by a library stand for those of others: two GPUs of a host, and the first ones of two hosts of a zone, no more of a
/// kind than above.
std::vector<std::vector<Rank>> candidate_pairs(const std::vector<cluster::Device>& on_gpus);

}  // namespace flotilla::probe
