#include "interference.hpp"

#include <algorithm>

namespace flotilla::simulate {
namespace {

/// When a member of a chain ran; `member`: of Listing::instructions.
struct Run {
  double start = 0, end = 0;
  std::size_t member = 0, variant = 0;
};

struct Interval {
  double start = 0, end = 0;
};

/// Disjoint, in order of time.
class Intervals {
 public:
  void add(Interval one) { all_.push_back(one); }
  void join() {
    std::ranges::sort(all_, {}, &Interval::start);
    std::vector<Interval> joined;
    for (const Interval& one : all_) {
      if (!joined.empty() && one.start <= joined.back().end)
        joined.back().end = std::max(joined.back().end, one.end);
      else
        joined.push_back(one);
    }
    all_ = std::move(joined);
  }
  /// Seconds of [start, end] that lie in them.
  double within(double start, double end) const {
    double sum = 0;
    for (auto one = first_behind(start); one != all_.end() && one->start < end; ++one)
      sum += std::max(0.0, std::min(end, one->end) - std::max(start, one->start));
    return sum;
  }
  bool hold(double moment) const {
    const auto one = first_behind(moment);
    return one != all_.end() && one->start <= moment;
  }

 private:
  std::vector<Interval>::const_iterator first_behind(double moment) const {
    return std::ranges::upper_bound(all_, moment, {}, &Interval::end);
  }
  std::vector<Interval> all_;
};

/// Sums, then means, by member and variant.
class Means {
 public:
  explicit Means(std::size_t members) {
    for (auto& each : sums_) each.resize(members);
    for (auto& each : counts_) each.resize(members);
  }
  void add(const Run& run, double seconds) {
    sums_[run.variant][run.member] += seconds;
    ++counts_[run.variant][run.member];
  }
  std::array<std::vector<double>, 2> take() {
    for (std::size_t v : {0u, 1u})
      for (std::size_t m = 0; m < sums_[v].size(); ++m) sums_[v][m] /= std::max(1, counts_[v][m]);
    return std::move(sums_);
  }

 private:
  std::array<std::vector<double>, 2> sums_;
  std::array<std::vector<int>, 2> counts_;
};

const program::Instruction& instruction_of(const SimulatedRank& rank, const Run& run) {
  return rank.instruction(rank.listing.instructions[run.member]);
}

bool computes(const program::Instruction& instruction) {
  return instruction.queue == program::Queue::compute && instruction.as<program::MessageEnd>() == nullptr &&
         instruction.as<program::Collective>() == nullptr;
}

/// How often an exchange's rank must notice something before it is over. Both ends of a message do once, and the delay is of both.
double waits_of(const program::Instruction& instruction) {
  if (const auto* collective = instruction.as<program::Collective>())
    return collective->kind == program::CollectiveKind::all_reduce ? 2 : 1;
  return 0.5;
}

std::vector<Run> runs_of(const SimulatedRank& rank) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < rank.moments.size(); ++i) {
    const Item& item = rank.listing.items[i];
    const Chain& chain = rank.listing.chain_of(static_cast<int>(i));
    const std::size_t variant = rank.variant_of(item);
    double start = rank.moments[i].start;
    for (int m = 0; m < chain.size; ++m) {
      const auto member = static_cast<std::size_t>(chain.first + m);
      const double end = m + 1 == chain.size ? rank.moments[i].finish : start + rank.durations[variant][member];
      runs.push_back({start, end, member, variant});
      start = end;
    }
  }
  return runs;
}

/// The part of computing that is lost while a collective of the rank moves beside it, by instruction of its class.
std::vector<double> collective_shares(const program::Program& program, const SimulatedRank& rank, const InstructionCost& cost) {
  const auto& groups = program.ranks[rank.kind->ranks.front().index()].groups;
  std::vector<double> shares;
  for (const auto& instruction : rank.rank_class->instructions) {
    const auto* collective = instruction.as<program::Collective>();
    const bool beside = collective != nullptr && instruction.queue != program::Queue::compute;
    const int group = beside ? groups[static_cast<std::size_t>(collective->group)] : -1;
    shares.push_back(beside ? cost.collective_share(program.groups[static_cast<std::size_t>(group)]) : 0);
  }
  return shares;
}

class RankInterference {
 public:
  RankInterference(const SimulatedRank& rank, const cluster::Interference& measured, std::vector<double> shares)
      : rank_{rank}, measured_{measured}, shares_{std::move(shares)} {}

  std::array<std::vector<double>, 2> seconds() const {
    const std::vector<Run> runs = runs_of(rank_);
    Means means{rank_.listing.instructions.size()};
    Intervals computing, moving, collectives;
    for (const Run& run : runs)
      if (computes(instruction_of(rank_, run))) computing.add({run.start, run.end});
    computing.join();
    for (const Run& run : runs) {
      if (instruction_of(rank_, run).queue == program::Queue::compute) continue;
      const double later = delay(run, computing);
      means.add(run, later);
      moving.add({run.start, run.end + later});
      if (share_of(run) > 0) collectives.add({run.start, run.end + later});
    }
    moving.join(), collectives.join();
    for (const Run& run : runs)
      if (computes(instruction_of(rank_, run)))
        means.add(run, measured_.compute_share * moving.within(run.start, run.end) + most() * collectives.within(run.start, run.end));
    return means.take();
  }

 private:
  double delay(const Run& run, const Intervals& computing) const {
    const double length = run.end - run.start;
    const double share = length > 0 ? computing.within(run.start, run.end) / length : computing.hold(run.start) ? 1 : 0;
    return share * waits_of(instruction_of(rank_, run)) * measured_.message_delay.value;
  }
  double share_of(const Run& run) const { return shares_[static_cast<std::size_t>(rank_.listing.instructions[run.member])]; }
  double most() const { return shares_.empty() ? 0 : *std::ranges::max_element(shares_); }

  const SimulatedRank& rank_;
  const cluster::Interference measured_;
  const std::vector<double> shares_;
};

}  // namespace

AddedSeconds interference(const program::Program& program, const std::vector<SimulatedRank>& ranks, const InstructionCost& cost) {
  const auto measured_on = [&](const SimulatedRank& rank) { return cost.interference(rank.rank_class->device_type); };
  if (std::ranges::none_of(ranks, [&](const SimulatedRank& rank) { return measured_on(rank).any(); }) &&
      std::ranges::none_of(program.groups, [&](const program::Group& group) { return cost.collective_share(group) > 0; }))
    return {};
  AddedSeconds added;
  for (const SimulatedRank& rank : ranks)
    added.push_back(RankInterference{rank, measured_on(rank), collective_shares(program, rank, cost)}.seconds());
  return added;
}

}  // namespace flotilla::simulate
