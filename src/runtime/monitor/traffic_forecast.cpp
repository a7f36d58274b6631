#include "traffic_forecast.hpp"

#include <algorithm>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla::monitor {
namespace {

using program::CollectiveKind;

/// Size of one number that a collective adds or hands on, as the runtime binds it.
Bytes element_of(const program::Program& program, CollectiveKind kind, bool per_microbatch) {
  if (kind == CollectiveKind::all_gather_shards) return element_size(program.plan.precision);
  return per_microbatch && kind != CollectiveKind::all_gather ? element_size(program.plan.precision) : Bytes{4};
}

class TrafficCosting {
 public:
  TrafficCosting(const program::Program& program, Rank me, const cluster::Profile& profile, const std::vector<Rank>& active_ranks)
      : program_{program}, me_{program.ranks[me.index()]}, self_{me}, active_ranks_{active_ranks}, profile_{profile}, cost_{profile} {}

  InstructionTraffic of(const program::RankClass& c, const program::Instruction& instruction) const {
    InstructionTraffic traffic;
    const auto* message = instruction.as<program::MessageEnd>();
    const auto* collective = instruction.as<program::Collective>();
    if (message != nullptr && message->sends()) traffic.peer = me_.peers.at(static_cast<std::size_t>(message->peer)).value;
    if (collective != nullptr && collective->kind != CollectiveKind::reduce_scalars)
      traffic.group = me_.groups.at(static_cast<std::size_t>(collective->group));
    if (traffic.peer < 0 && traffic.group < 0) return {};
    const auto forecast = [&](int sequences) {
      return message != nullptr ? cost_.message(at(self_), at(Rank{traffic.peer}), message->size.of(sequences)).time
                                : time(*collective, instruction.per_microbatch, traffic.group, sequences);
    };
    try {
      const bool many = instruction.per_microbatch;
      traffic.forecast = {forecast(many ? c.shape.sequences : 0), forecast(many ? c.last_sequences : 0)};
    } catch (const Error&) {  // a link that the profile does not know
      return {};
    }
    return traffic;
  }

 private:
  Seconds time(const program::Collective& collective, bool per_microbatch, int index, int sequences) const {
    auto group = program_.groups[static_cast<std::size_t>(index)];
    const int flows = beside(group);
    for (auto& member : group.members) member = at(member);
    const Bytes element = element_of(program_, collective.kind, per_microbatch);
    return cost_.collective(collective.kind, group, collective.size.of(sequences), element, flows).time;
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
