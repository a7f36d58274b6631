#include "attribution.hpp"

#include <algorithm>

namespace flotilla::simulate {
namespace {

using program::Op;
using program::Queue;

struct Interval {
  double start, end;
};
struct Busy {
  double start, end;
  Activity activity;
};

bool is_collective(Op op) { return op == Op::all_reduce || op == Op::all_gather || op == Op::reduce_scalars; }

/// Gives the parts of `idle` that lie inside `busy` to their activities; what is left. Both in order of time.
std::vector<Interval> attribute_idle(const std::vector<Interval>& idle, const std::vector<Busy>& busy, Breakdown& breakdown) {
  std::vector<Interval> left;
  auto next = busy.begin();
  for (auto [at, end] : idle) {
    while (next != busy.end() && next->end <= at) ++next;
    for (auto b = next; b != busy.end() && b->start < end; ++b) {
      if (b->start > at) left.push_back({at, b->start});
      const double from = std::max(at, b->start), to = std::min(end, b->end);
      if (to <= from) continue;
      breakdown[b->activity] += Seconds{to - from};
      at = to;
    }
    if (at < end) left.push_back({at, end});
  }
  return left;
}

/// In order of start; what overlaps an earlier one is cut off.
void make_disjoint(std::vector<Busy>& busy) {
  if (!std::ranges::is_sorted(busy, {}, &Busy::start)) std::ranges::stable_sort(busy, {}, &Busy::start);
  double end = 0;
  for (Busy& b : busy) {
    b.start = std::max(b.start, end);
    b.end = std::max(b.end, b.start);
    end = b.end;
  }
}

/// What decides an instant's activity, the first of them that is busy.
struct Layers {
  std::vector<Busy> compute, collectives, arrivals;
};

Layers layers_of(const SimulatedRank& rank, const std::vector<Activity>& by_site) {
  Layers layers;
  layers.compute.reserve(rank.moments.size());
  for (std::size_t i = 0; i < rank.moments.size(); ++i) {
    const auto s = static_cast<std::size_t>(rank.listing.items[i].site);
    const auto& site = rank.rank_class->sites[s];
    const Busy busy{rank.moments[i].start, rank.moments[i].finish, by_site[s]};
    if (is_collective(site.op))
      layers.collectives.push_back(busy);
    else if (site.queue == Queue::compute)
      layers.compute.push_back(busy);
    else if (site.op == Op::receive)
      layers.arrivals.push_back(busy);
  }
  for (auto* busy : {&layers.compute, &layers.collectives, &layers.arrivals}) make_disjoint(*busy);
  return layers;
}

}  // namespace

Activity activity_of(const program::Site& site, program::Group::Kind group) {
  switch (site.op) {
    case Op::load_tokens: return Activity::forward;
    case Op::compute: return site.recompute ? Activity::recompute : site.backward ? Activity::backward : Activity::forward;
    case Op::layer_forward: return Activity::forward;
    case Op::layer_backward: return Activity::backward;
    case Op::host_work: return site.per_microbatch ? Activity::activation_transfer : Activity::gradient_reduction;
    case Op::send:
    case Op::receive: return Activity::activation_transfer;
    case Op::all_reduce:
    case Op::all_gather:
      return group == program::Group::Kind::tensor && site.per_microbatch ? Activity::tensor_collective : Activity::gradient_reduction;
    case Op::zero:
    case Op::squared_norm:
    case Op::reduce_scalars:
    case Op::optimizer: break;
  }
  return Activity::optimizer;
}

std::vector<Activity> activities_of(const program::Program& program, const SimulatedRank& rank) {
  const auto& groups = program.ranks[rank.kind->ranks.front().index()].groups;
  std::vector<Activity> activities;
  for (const auto& site : rank.rank_class->sites) {
    const bool of_group = is_collective(site.op);
    const auto kind = of_group ? program.groups[static_cast<std::size_t>(groups[static_cast<std::size_t>(site.group)])].kind
                               : program::Group::Kind::world;
    activities.push_back(activity_of(site, kind));
  }
  return activities;
}

Breakdown attribute(const SimulatedRank& rank, const std::vector<Activity>& by_site, Seconds iteration) {
  Breakdown breakdown;
  const Layers layers = layers_of(rank, by_site);
  std::vector<Interval> idle{{0, iteration.value}};
  for (const auto* busy : {&layers.compute, &layers.collectives, &layers.arrivals}) idle = attribute_idle(idle, *busy, breakdown);
  for (const auto& [start, end] : idle) breakdown[Activity::bubble] += Seconds{end - start};
  return breakdown;
}

}  // namespace flotilla::simulate
