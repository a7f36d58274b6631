#include "traffic_forecast.hpp"

#include <algorithm>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla::monitor {
namespace {

using program::Op;

bool sums(Op op) { return op == Op::all_reduce || op == Op::reduce_scatter || op == Op::all_gather; }
bool shares(Op op) { return op == Op::sum_shares || op == Op::gather_shares; }

/// Size of one number that a collective adds or hands on, as the runtime binds it.
Bytes element_of(const program::Program& program, const program::Site& site) {
  if (site.op == Op::gather_shares) return element_size(program.plan.precision);
  return site.per_microbatch && site.op != Op::all_gather ? element_size(program.plan.precision) : Bytes{4};
}

class Costing {
 public:
  Costing(const program::Program& program, Rank me, const cluster::Profile& profile, const std::vector<Rank>& crew_ranks)
      : program_{program}, me_{program.ranks[me.index()]}, self_{me}, crew_ranks_{crew_ranks}, profile_{profile}, cost_{profile} {}

  SiteTraffic of(const program::RankClass& c, const program::Site& site) const {
    SiteTraffic traffic;
    if (site.op == Op::send) traffic.peer = me_.peers.at(static_cast<std::size_t>(site.peer)).value;
    if (sums(site.op) || shares(site.op)) traffic.group = me_.groups.at(static_cast<std::size_t>(site.group));
    if (traffic.peer < 0 && traffic.group < 0) return {};
    try {
      const bool many = site.per_microbatch;
      traffic.forecast = {time(site, traffic, many ? c.shape.sequences : 0), time(site, traffic, many ? c.last_sequences : 0)};
    } catch (const Error&) {  // a link that the profile does not know
      return {};
    }
    return traffic;
  }

 private:
  Seconds time(const program::Site& site, const SiteTraffic& traffic, int sequences) const {
    const Bytes size = site.size(sequences);
    if (traffic.peer >= 0) return cost_.message(at(self_), at(Rank{traffic.peer}), size).time;
    auto group = program_.groups[static_cast<std::size_t>(traffic.group)];
    const int flows = beside(group);
    for (auto& member : group.members) member = at(member);
    return cost_.collective(site.op, group, size, element_of(program_, site), flows).time;
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
  Rank at(Rank member) const { return crew_ranks_.at(member.index()); }

  const program::Program& program_;
  const program::RankBinding& me_;
  const Rank self_;
  const std::vector<Rank>& crew_ranks_;
  const cluster::Profile& profile_;
  const simulate::ProfileCost cost_;
};

}  // namespace

std::vector<SiteTraffic> traffic_of_sites(const program::Program& program, Rank me, const cluster::Profile& profile,
                                          const std::vector<Rank>& crew_ranks) {
  const Costing costing{program, me, profile, crew_ranks};
  const auto& c = program.classes.at(static_cast<std::size_t>(program.ranks.at(me.index()).rank_class));
  std::vector<SiteTraffic> traffic;
  for (const auto& site : c.sites) traffic.push_back(costing.of(c, site));
  return traffic;
}

}  // namespace flotilla::monitor
