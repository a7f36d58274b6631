#include "traffic_forecast.hpp"

#include <algorithm>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla::monitor {
namespace {

using program::Op;

bool sums(Op op) { return op == Op::all_reduce || op == Op::reduce_scatter || op == Op::all_gather; }
bool shares(Op op) { return op == Op::reduce_scatter_shards || op == Op::all_gather_shards; }

/// Size of one number that a collective adds or hands on, as the runtime binds it.
Bytes element_of(const program::Program& program, const program::Instruction& instruction) {
  if (instruction.op == Op::all_gather_shards) return element_size(program.plan.precision);
  return instruction.per_microbatch && instruction.op != Op::all_gather ? element_size(program.plan.precision) : Bytes{4};
}

class TrafficCosting {
 public:
  TrafficCosting(const program::Program& program, Rank me, const cluster::Profile& profile, const std::vector<Rank>& active_ranks)
      : program_{program}, me_{program.ranks[me.index()]}, self_{me}, active_ranks_{active_ranks}, profile_{profile}, cost_{profile} {}

  InstructionTraffic of(const program::RankClass& c, const program::Instruction& instruction) const {
    InstructionTraffic traffic;
    if (instruction.op == Op::send) traffic.peer = me_.peers.at(static_cast<std::size_t>(instruction.peer)).value;
    if (sums(instruction.op) || shares(instruction.op)) traffic.group = me_.groups.at(static_cast<std::size_t>(instruction.group));
    if (traffic.peer < 0 && traffic.group < 0) return {};
    try {
      const bool many = instruction.per_microbatch;
      traffic.forecast = {time(instruction, traffic, many ? c.shape.sequences : 0),
                          time(instruction, traffic, many ? c.last_sequences : 0)};
    } catch (const Error&) {  // a link that the profile does not know
      return {};
    }
    return traffic;
  }

 private:
  Seconds time(const program::Instruction& instruction, const InstructionTraffic& traffic, int sequences) const {
    const Bytes size = instruction.size(sequences);
    if (traffic.peer >= 0) return cost_.message(at(self_), at(Rank{traffic.peer}), size).time;
    auto group = program_.groups[static_cast<std::size_t>(traffic.group)];
    const int flows = beside(group);
    for (auto& member : group.members) member = at(member);
    return cost_.collective(instruction.op, group, size, element_of(program_, instruction), flows).time;
  }

  /// Groups of the kind that meet on the same hosts, this one included; 1 inside a host.
  int beside(const program::Group& group) const {
    const auto own = hosts(group);
    if (own.size() < 2) return 1;
    return static_cast<int>(std::ranges::count_if(
        program_.groups, [&](const program::Group& other) { return other.kind == group.kind && hosts(other) == own; }));
  }

  std::set<std::string> hosts(const program::Group& group) const {
    std::set<std::string> all;
    for (const Rank member : group.members) all.insert(profile_.devices.at(at(member).index()).host);
    return all;
  }
  Rank at(Rank member) const { return active_ranks_.at(member.index()); }

  const program::Program& program_;
  const program::RankBinding& me_;
  const Rank self_;
  const std::vector<Rank>& active_ranks_;
  const cluster::Profile& profile_;
  const simulate::ProfileCost cost_;
};

}  // namespace

std::vector<InstructionTraffic> traffic_of_instructions(const program::Program& program, Rank me, const cluster::Profile& profile,
                                                        const std::vector<Rank>& active_ranks) {
  const TrafficCosting costing{program, me, profile, active_ranks};
  const auto& c = program.classes.at(static_cast<std::size_t>(program.ranks.at(me.index()).rank_class));
  std::vector<InstructionTraffic> traffic;
  for (const auto& instruction : c.instructions) traffic.push_back(costing.of(c, instruction));
  return traffic;
}

}  // namespace flotilla::monitor
