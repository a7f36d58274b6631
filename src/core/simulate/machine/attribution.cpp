#include "attribution.hpp"

#include <algorithm>

#include "flotilla/base/overloaded.hpp"

namespace flotilla::simulate {
namespace {

using program::Instruction;
using program::Queue;

struct BusyInterval {
  double start, end;
};
struct Busy {
  double start, end;
  Activity activity;
};

/// Gives the parts of `idle` that lie inside `busy` to their activities; what is left. Both in order of time.
std::vector<BusyInterval> attribute_idle(const std::vector<BusyInterval>& idle, const std::vector<Busy>& busy, Breakdown& breakdown) {
  std::vector<BusyInterval> left;
  auto next = busy.begin();
  for (auto [at, end] : idle) {
    while (next != busy.end() && next->end <= at) ++next;
    for (auto b = next; b != busy.end() && b->start < end; ++b) {
      if (b->start > at) left.push_back({at, b->start});
      at = std::max(at, b->start);
      const double to = std::min(end, b->end);
      if (to <= at) continue;
      breakdown[b->activity] += Seconds{to - at};
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

/// Where the compute queue stands idle. What runs on it goes to its activities at once: whole chains by how often they run, since from
/// a chain's start to its last member on the compute queue no moment is idle.
std::vector<BusyInterval> attribute_compute(const SimulatedRank& rank, const std::vector<Activity>& by_instruction, Seconds iteration,
                                            Breakdown& breakdown) {
  std::vector<BusyInterval> idle;
  double at = 0;
  for (int item : rank.listing.queues[static_cast<std::size_t>(Queue::compute)]) {
    const Moment& moment = rank.moments[static_cast<std::size_t>(item)];
    const Chain& chain = rank.listing.chain_of(item);
    if (chain.size == 1)
      breakdown[by_instruction[static_cast<std::size_t>(rank.listing.first_instruction(item))]] += Seconds{moment.finish - moment.start};
    if (moment.start > at) idle.push_back({at, moment.start});
    at = rank.end_of({item, chain.home_mark});
  }
  if (at < iteration.value) idle.push_back({at, iteration.value});
  for (const Chain& chain : rank.listing.chains) {
    if (chain.size == 1 || rank.instruction(rank.listing.instructions_of(chain).front()).queue != Queue::compute) continue;
    const int last = rank.listing.last_at_home(chain);
    for (int m = 0; m <= last; ++m) {
      const auto member = static_cast<std::size_t>(chain.first + m);
      const double seconds = chain.runs[0] * rank.durations[0][member] + chain.runs[1] * rank.durations[1][member];
      breakdown[by_instruction[static_cast<std::size_t>(rank.listing.instructions[member])]] += Seconds{seconds};
    }
  }
  return idle;
}

/// What decides an instant's activity while the compute queue is idle: the first of them that is busy.
struct LayerIntervals {
  std::vector<Busy> collectives, sums, arrivals;
};

/// Members of one run of a chain from `first` on.
void add_members(const SimulatedRank& rank, const std::vector<Activity>& by_instruction, int item, int first, LayerIntervals& layers) {
  const Chain& chain = rank.listing.chain_of(item);
  const auto& durations = rank.durations[rank.variant_of(rank.listing.items[static_cast<std::size_t>(item)])];
  const Moment& moment = rank.moments[static_cast<std::size_t>(item)];
  double at = moment.start;
  for (int m = 0; m < chain.size; ++m) {
    const auto member = static_cast<std::size_t>(chain.first + m);
    const auto instruction = static_cast<std::size_t>(rank.listing.instructions[member]);
    const double end = m + 1 == chain.size ? moment.finish : at + durations[member];
    const Busy busy{at, end, by_instruction[instruction]};
    at = end;
    if (m < first) continue;
    const Instruction& own = rank.rank_class->instructions[instruction];
    if (own.as<program::Collective>() != nullptr) (own.queue == Queue::sum ? layers.sums : layers.collectives).push_back(busy);
    if (own.receives()) layers.arrivals.push_back(busy);
  }
}

LayerIntervals layers_of(const SimulatedRank& rank, const std::vector<Activity>& by_instruction) {
  LayerIntervals layers;
  for (std::size_t q = 0; q < rank.listing.queues.size(); ++q)
    for (int item : rank.listing.queues[q]) {
      const Chain& chain = rank.listing.chain_of(item);
      const bool compute = static_cast<Queue>(q) == Queue::compute;
      const int first = compute ? rank.listing.last_at_home(chain) + 1 : 0;
      if (first < chain.size) add_members(rank, by_instruction, item, first, layers);
    }
  for (auto* busy : {&layers.collectives, &layers.sums, &layers.arrivals}) make_disjoint(*busy);
  return layers;
}

Activity activity_of(const program::Instruction& instruction, program::Group::Kind group) {
  const Activity pass = instruction.backward ? Activity::backward : Activity::forward;
  return std::visit(Overloaded{
                        [&](const program::LayerOperation& operation) { return operation.recompute ? Activity::recompute : pass; },
                        [&](const program::LayerPass&) { return pass; }, [&](const program::TokenLoad&) { return Activity::forward; },
                        [&](const program::DocumentLoad&) { return Activity::forward; },
                        [&](const program::HostWork&) {
                          return instruction.per_microbatch ? Activity::activation_transfer : Activity::gradient_reduction;
                        },
                        [&](const program::MessageEnd&) { return Activity::activation_transfer; },
                        [&](const program::Collective& collective) {
                          if (collective.kind == program::CollectiveKind::reduce_scalars) return Activity::optimizer;
                          const bool in_pass = group == program::Group::Kind::tensor && instruction.per_microbatch;
                          return in_pass ? Activity::tensor_collective : Activity::gradient_reduction;
                        },
                        [&](const program::RegionCopy&) { return Activity::gradient_reduction; },
                        [&](const program::ShardExtraction&) { return Activity::gradient_reduction; },
                        [&](const auto&) { return Activity::optimizer; },  // gradients set to 0 and their norms, too
                    },
                    instruction.work);
}

}  // namespace

std::vector<Activity> activities_by_instruction(const program::Program& program, Rank rank) {
  const auto& binding = program.ranks.at(rank.index());
  std::vector<Activity> activities;
  for (const auto& instruction : program.classes.at(static_cast<std::size_t>(binding.rank_class)).instructions) {
    auto kind = program::Group::Kind::world;
    if (const auto* collective = instruction.as<program::Collective>())
      kind = program.groups.at(static_cast<std::size_t>(binding.groups.at(static_cast<std::size_t>(collective->group)))).kind;
    activities.push_back(activity_of(instruction, kind));
  }
  return activities;
}

Breakdown attribute(const SimulatedRank& rank, const std::vector<Activity>& by_instruction, Seconds iteration) {
  Breakdown breakdown;
  std::vector<BusyInterval> idle = attribute_compute(rank, by_instruction, iteration, breakdown);
  const LayerIntervals layers = layers_of(rank, by_instruction);
  for (const auto* busy : {&layers.collectives, &layers.sums, &layers.arrivals}) idle = attribute_idle(idle, *busy, breakdown);
  for (const auto& [start, end] : idle) breakdown[Activity::bubble] += Seconds{end - start};
  return breakdown;
}

}  // namespace flotilla::simulate
