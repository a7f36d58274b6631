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
  std::ranges::stable_sort(busy, {}, &Busy::start);
  double end = 0;
  for (Busy& b : busy) {
    b.start = std::max(b.start, end);
    b.end = std::max(b.end, b.start);
    end = b.end;
  }
}

enum class Layer { compute, collectives, arrivals };

std::vector<Busy> busy_of(const program::Program& program, const SimulatedRank& rank, Layer layer) {
  std::vector<Busy> busy;
  for (std::size_t i = 0; i < rank.moments.size(); ++i) {
    const auto& site = rank.rank_class->sites[static_cast<std::size_t>(rank.listing.items[i].site)];
    const bool computes = site.queue == Queue::compute && !is_collective(site.op);
    const bool wanted = layer == Layer::compute       ? computes
                        : layer == Layer::collectives ? is_collective(site.op)
                                                      : site.op == Op::receive;
    if (wanted) busy.push_back({rank.moments[i].start, rank.moments[i].finish, activity_of(program, rank, static_cast<int>(i))});
  }
  make_disjoint(busy);
  return busy;
}

}  // namespace

Activity activity_of(const program::Site& site, program::Group::Kind group) {
  switch (site.op) {
    case Op::load_tokens: return Activity::forward;
    case Op::compute: return site.recompute ? Activity::recompute : site.backward ? Activity::backward : Activity::forward;
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

Activity activity_of(const program::Program& program, const SimulatedRank& rank, int item) {
  const auto& site = rank.rank_class->sites[static_cast<std::size_t>(rank.listing.items[static_cast<std::size_t>(item)].site)];
  if (!is_collective(site.op)) return activity_of(site, program::Group::Kind::world);
  const auto& groups = program.ranks[rank.kind->ranks.front().index()].groups;
  return activity_of(site, program.groups[static_cast<std::size_t>(groups[static_cast<std::size_t>(site.group)])].kind);
}

Breakdown attribute(const program::Program& program, const SimulatedRank& rank, Seconds iteration) {
  Breakdown breakdown;
  std::vector<Interval> idle{{0, iteration.value}};
  for (Layer layer : {Layer::compute, Layer::collectives, Layer::arrivals})
    idle = attribute_idle(idle, busy_of(program, rank, layer), breakdown);
  for (const auto& [start, end] : idle) breakdown[Activity::bubble] += Seconds{end - start};
  return breakdown;
}

}  // namespace flotilla::simulate
