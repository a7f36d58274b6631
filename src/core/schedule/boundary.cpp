#include "flotilla/schedule/boundary.hpp"

#include <algorithm>

#include "index.hpp"

namespace flotilla::schedule {
namespace {

struct Dealt {
  plan::Microbatch microbatch;
  int replica = 0, index = 0;
};

std::vector<Dealt> in_order(const plan::BatchPartition& batch_partition) {
  std::vector<Dealt> all;
  for (std::size_t r = 0; r < batch_partition.size(); ++r)
    for (std::size_t m = 0; m < batch_partition[r].size(); ++m)
      all.push_back({batch_partition[r][m], static_cast<int>(r), static_cast<int>(m)});
  std::ranges::sort(all, {}, [](const Dealt& d) { return d.microbatch.first; });
  return all;
}

}  // namespace

Boundary boundary_between(const plan::BatchPartition& stage, const plan::BatchPartition& next) {
  Boundary boundary;
  boundary.alike = stage == next;
  if (boundary.alike) return boundary;
  boundary.of.resize(stage.size());
  boundary.of_next.resize(next.size());
  const auto sent = in_order(stage), taken = in_order(next);
  for (std::size_t a = 0, b = 0; a < sent.size() && b < taken.size();) {
    const int first = std::max(sent[a].microbatch.first, taken[b].microbatch.first);
    const int end_a = sent[a].microbatch.last(), end_b = taken[b].microbatch.last();
    boundary.of[at(sent[a].replica)].push_back(static_cast<int>(boundary.crossings.size()));
    boundary.of_next[at(taken[b].replica)].push_back(static_cast<int>(boundary.crossings.size()));
    boundary.crossings.push_back(
        {sent[a].replica, sent[a].index, taken[b].replica, taken[b].index, {first, std::min(end_a, end_b) - first}});
    if (end_a <= end_b) ++a;
    if (end_b <= end_a) ++b;
  }
  return boundary;
}

}  // namespace flotilla::schedule
