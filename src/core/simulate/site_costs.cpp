#include "site_costs.hpp"

#include <algorithm>
#include <utility>

#include "crowd.hpp"
#include "flotilla/base/error.hpp"
#include "sites.hpp"

namespace flotilla::simulate {
namespace {

using program::Op;
using program::Site;

/// Activations and refreshed weights travel in the plan's precision, gradients in fp32, scalars in fp64 (program.hpp).
Bytes element_of(const program::Program& program, const Site& site) {
  if (site.op == Op::reduce_scalars) return {8};
  if (site.op == Op::gather_shares) return element_size(program.plan.precision);
  const bool sums = site.op == Op::all_reduce || site.op == Op::reduce_scatter;
  return sums && site.per_microbatch ? element_size(program.plan.precision) : Bytes{4};
}

struct Collective {
  Op op;
  const program::Group* group;
  Bytes bytes, element;
  Flows flows;
  bool operator==(const Collective&) const = default;
};

class Costing {
 public:
  Costing(const program::Program& program, const Kinds& kinds, std::size_t kind, const Wires& wires, const InstructionCost& cost)
      : program_{program},
        index_{static_cast<int>(kind)},
        kind_{kinds.kinds[kind]},
        class_{program.classes[static_cast<std::size_t>(kind_.rank_class)]},
        self_{kind_.ranks.front()},
        wires_{wires},
        cost_{cost} {}

  SiteCosts run() const {
    SiteCosts found;
    found.costs.reserve(class_.sites.size());
    found.wire_seconds.resize(class_.sites.size());
    for (std::size_t s = 0; s < class_.sites.size(); ++s) {
      const Site& site = class_.sites[s];
      const bool short_last = site.per_microbatch && class_.microbatches > 0 && class_.last_sequences != class_.shape.sequences;
      const Cost full = of(site, class_.shape.sequences, own_flows(site));
      const Cost last = short_last ? of(site, class_.last_sequences, own_flows(site)) : full;
      for (const Cost& c : {full, last}) require_time(site, c.time);
      found.costs.push_back({full, last});
      if (user_of(site) < 0 || !wires_.contended(user_of(site))) continue;
      found.wire_seconds[s][0] = wire_seconds(site, class_.shape.sequences, full.time);
      found.wire_seconds[s][1] = short_last ? wire_seconds(site, class_.last_sequences, last.time) : found.wire_seconds[s][0];
    }
    return found;
  }

 private:
  /// A profile may hold a rate of 1e-300 bytes a second: a number, but what follows from it is none.
  static void require_time(const Site& site, Seconds time) {
    constexpr Seconds most{1e12};
    FLOTILLA_REQUIRE(time.value >= 0 && time < most, ErrorKind::bad_input, "by the profile's figures \"", site.name, "\" takes ",
                     time.value, " seconds; some rate or time in it is absurd, measure it again");
  }

  Cost of(const Site& site, int sequences, const Flows& flows) const {
    const Bytes bytes = site.size(site.per_microbatch ? sequences : 0);
    if (is_message(site.op)) {
      const Rank peer = peer_of(site);
      if (site.op == Op::receive) return {};  // its sender's side is what it takes
      return cost_.message(self_, peer, bytes, flows);
    }
    if (is_collective(site.op)) return of_collective({site.op, &group_of(site), bytes, element_of(program_, site), flows});
    return cost_.compute(program_, class_, site, sequences);
  }

  /// Most collectives of a class are the same ones, layer by layer.
  Cost of_collective(const Collective& wanted) const {
    const auto found = std::ranges::find(collectives_, wanted, &std::pair<Collective, Cost>::first);
    if (found != collectives_.end()) return found->second;
    const Cost cost = cost_.collective(wanted.op, *wanted.group, wanted.bytes, wanted.element, wanted.flows);
    collectives_.emplace_back(wanted, cost);
    return cost;
  }

  /// Of its time what its cards or uplinks are busy.
  double wire_seconds(const Site& site, int sequences, Seconds all) const {
    const int user = user_of(site);
    const double alone = card_seconds([&](const Flows& flows) { return of(site, sequences, flows).time; }, wires_.lanes(user));
    return std::clamp(alone * wires_.slowdown(user), 0.0, all.value);
  }

  Flows own_flows(const Site& site) const { return user_of(site) < 0 ? Flows{} : wires_.flows(user_of(site)); }

  /// Of wires; -1 for a site that moves nothing, or receives.
  int user_of(const Site& site) const {
    if (site.op == Op::send) return peer_of(site), wires_.stream(index_, kind_.slots[static_cast<std::size_t>(site.peer)]);
    if (!is_collective(site.op)) return -1;
    return group_of(site), wires_.user_of_group(kind_.groups[static_cast<std::size_t>(site.group)]);
  }

  Rank peer_of(const Site& site) const {
    const auto& peers = program_.ranks[self_.index()].peers;
    FLOTILLA_REQUIRE(site.peer >= 0 && static_cast<std::size_t>(site.peer) < peers.size(), ErrorKind::internal, "\"", site.name,
                     "\" of the program names peer slot ", site.peer, "; rank ", self_, " has ", peers.size());
    return peers[static_cast<std::size_t>(site.peer)];
  }
  const program::Group& group_of(const Site& site) const {
    const auto& groups = program_.ranks[self_.index()].groups;
    FLOTILLA_REQUIRE(site.group >= 0 && static_cast<std::size_t>(site.group) < groups.size(), ErrorKind::internal, "\"", site.name,
                     "\" of the program names group slot ", site.group, "; rank ", self_, " has ", groups.size());
    return program_.groups[static_cast<std::size_t>(groups[static_cast<std::size_t>(site.group)])];
  }

  const program::Program& program_;
  const int index_;
  const Kind& kind_;
  const program::RankClass& class_;
  const Rank self_;
  const Wires& wires_;
  const InstructionCost& cost_;
  mutable std::vector<std::pair<Collective, Cost>> collectives_;
};

}  // namespace

SiteCosts costs_of_sites(const program::Program& program, const Kinds& kinds, std::size_t kind, const Wires& wires,
                         const InstructionCost& cost) {
  return Costing{program, kinds, kind, wires, cost}.run();
}

}  // namespace flotilla::simulate
