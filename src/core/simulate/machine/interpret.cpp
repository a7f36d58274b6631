#include "interpret.hpp"

#include <algorithm>
#include <tuple>

#include "attribution.hpp"
#include "machine.hpp"
#include "rank_partition.hpp"

namespace flotilla::simulate {
namespace {

/// Time-weighted means over what ran.
struct Confidence {
  double time = 0, error = 0, estimated = 0;
  void add(const SimulatedRank& rank) {
    const auto copies = static_cast<double>(rank.kind->ranks.size());
    for (const Chain& chain : rank.listing.chains)
      for (int instruction : rank.listing.instructions_of(chain))
        for (std::size_t variant : {0u, 1u}) {
          const Cost& cost = rank.costs[static_cast<std::size_t>(instruction)][variant];
          const double seconds = cost.time.value * chain.runs[variant] * copies;
          time += seconds;
          error += seconds * cost.relative_error;
          if (cost.estimated) estimated += seconds;
        }
  }
};

Seconds end_of(const std::vector<SimulatedRank>& ranks) {
  double end = 0;
  for (const auto& rank : ranks)
    for (const Moment& moment : rank.moments) end = std::max(end, moment.finish);
  return {end};
}

MemoryForecast memory_of(const program::RankClass& c, Bytes runtime_constant) {
  MemoryForecast memory;
  const auto breakdown = program::arena_breakdown(c);
  std::copy(breakdown.begin(), breakdown.end(), memory.categories.begin());
  memory.arena = c.arena;
  memory.runtime_constant = runtime_constant;
  return memory;
}

Seconds busy_of(const Breakdown& b) { return b[Activity::forward] + b[Activity::backward] + b[Activity::recompute]; }

RankKind summary_of(const SimulatedRank& rank, const std::vector<Activity>& activities, Seconds iteration, Bytes runtime_constant) {
  RankKind kind;
  kind.rank_class = rank.kind->rank_class;
  kind.stage = rank.rank_class->stage;
  kind.device_type = rank.rank_class->device_type;
  kind.ranks = rank.kind->ranks;
  kind.breakdown = attribute(rank, activities, iteration);
  kind.busy = busy_of(kind.breakdown);
  kind.memory = memory_of(*rank.rank_class, runtime_constant);
  return kind;
}

/// The members of one run of a chain, by the additions that the machine made.
void add_members(const SimulatedRank& rank, const std::vector<Activity>& activities, int i, std::vector<Span>& timeline) {
  const Item& item = rank.listing.items[static_cast<std::size_t>(i)];
  const Chain& chain = rank.listing.chain_of(i);
  const Moment& moment = rank.moments[static_cast<std::size_t>(i)];
  const auto& durations = rank.durations[rank.variant_of(item)];
  double start = moment.start;
  for (int m = 0; m < chain.size; ++m) {
    const auto member = static_cast<std::size_t>(chain.first + m);
    const auto s = static_cast<std::size_t>(rank.listing.instructions[member]);
    const auto& instruction = rank.rank_class->instructions[s];
    const double end = m + 1 == chain.size ? moment.finish : start + durations[member];
    timeline.push_back({rank.kind->ranks.front(), instruction.queue, activities[s], instruction.name, item.microbatch, {start}, {end}});
    start = end;
  }
}

void add_spans(const SimulatedRank& rank, const std::vector<Activity>& activities, std::vector<Span>& timeline) {
  const std::size_t first = timeline.size();
  for (std::size_t i = 0; i < rank.moments.size(); ++i) add_members(rank, activities, static_cast<int>(i), timeline);
  std::stable_sort(timeline.begin() + static_cast<std::ptrdiff_t>(first), timeline.end(),
                   [](const Span& a, const Span& b) { return std::tie(a.queue, a.start) < std::tie(b.queue, b.start); });
}

Breakdown mean_over_ranks(const std::vector<RankKind>& kinds) {
  Breakdown mean;
  double ranks = 0;
  for (const RankKind& kind : kinds) ranks += static_cast<double>(kind.ranks.size());
  for (const RankKind& kind : kinds)
    for (std::size_t a = 0; a < mean.seconds.size(); ++a)
      mean.seconds[a] += kind.breakdown.seconds[a] * (static_cast<double>(kind.ranks.size()) / ranks);
  return mean;
}

}  // namespace

Forecast interpret(const program::Program& program, const InstructionCost& cost, const InterpretOptions& options) {
  const RankPartition kinds = partition_ranks(program, cost);
  const auto ranks = run_machine(program, kinds, cost);
  Forecast forecast;
  forecast.iteration = end_of(ranks);
  Confidence confidence;
  for (const auto& rank : ranks) {
    confidence.add(rank);
    const auto activities = activities_by_instruction(program, rank.kind->ranks.front());
    forecast.kinds.push_back(summary_of(rank, activities, forecast.iteration, options.runtime_constant));
    if (options.timeline) add_spans(rank, activities, forecast.timeline);
  }
  forecast.breakdown = mean_over_ranks(forecast.kinds);
  if (confidence.time > 0) {
    forecast.relative_error = confidence.error / confidence.time;
    forecast.estimated_share = confidence.estimated / confidence.time;
  }
  return forecast;
}

}  // namespace flotilla::simulate
