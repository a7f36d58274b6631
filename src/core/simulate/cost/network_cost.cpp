#include "network_cost.hpp"

#include <algorithm>
#include <array>

#include "flotilla/base/philox.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "network/library_collective.hpp"
#include "operation_cost.hpp"

namespace flotilla::simulate {
namespace {

using program::CollectiveKind;

/// Messages that a member of a group sends along a path when it has one for each of the others, and how many leave its host at once.
struct CardLoad {
  int messages = 1, flows = 1;
  bool operator==(const CardLoad&) const = default;
};
/// Of a member on the fullest host, whose cards it shares with most, and of one on the emptiest, which sends most to others.
std::array<CardLoad, 2> loads_of(const Paths::GroupTopology& group_topology, std::size_t members, const Route& route, const Flows& flows) {
  const auto load = [&](int here) {
    if (route.inside_host) return CardLoad{std::max(1, here - 1), flows.cards};
    return CardLoad{std::max(1, static_cast<int>(members) - here), flows.cards * here};
  };
  return {load(group_topology.most_of_a_host), load(group_topology.least_of_a_host)};
}

/// The longest of `time(flows)` for the first message and what each further one adds to it without the latency.
template <class Time>
Seconds longest(const std::array<CardLoad, 2>& loads, Seconds latency, Time time) {
  Seconds most;
  for (std::size_t l = 0; l < (loads[0] == loads[1] ? 1 : loads.size()); ++l) {
    const CardLoad& load = loads[l];
    const Seconds one = time(load.flows), further = std::max(Seconds{0}, one - latency);
    most = std::max(most, one + static_cast<double>(load.messages - 1) * further);
  }
  return most;
}

/// What passes uplinks is counted for all members together.
Flows over_cards(int at_once) { return {at_once, 0, 0}; }

/// What `size` from everybody to everybody takes through the fullest uplink, each way: from every member behind it to every other one.
/// `alone`: what the bytes of one message take on its link, which was measured over the uplink.
Seconds through_uplinks(const Paths::GroupTopology& group_topology, Bytes size, std::size_t members, const Flows& flows, Seconds alone) {
  Seconds longest;
  const double all = static_cast<double>(members), scale = all / group_topology.members;  // of members that stand for many
  for (const auto& behind : group_topology.behind) {
    const double here = scale * behind.members, messages = flows.out * here * (all - here);
    longest = std::max(longest, messages * std::min(size / behind.uplink, alone));
  }
  return longest;
}

bool knows_copies(const cluster::DeviceType& type) { return type.to_host.known() || type.to_device.known(); }

Cost with_copies(const Cost& network, const Cost& copies) { return copies.time.value > 0 ? combine(network, copies, {}) : network; }

}  // namespace

std::uint64_t joined(std::uint64_t seed, std::uint64_t value) { return Philox::mix(seed ^ Philox::mix(value)); }

Cost combine(const Cost& a, const Cost& b, const Cost& c) {
  const Seconds time = a.time + b.time + c.time;
  if (!(time.value > 0)) return {};
  const Seconds error = a.time * a.relative_error + b.time * b.relative_error + c.time * c.relative_error;
  const bool estimated = (c.estimated && c.time > a.time + b.time) || (a.estimated && b.estimated) || (a.estimated && b.time.value == 0);
  return {time, error / time, estimated};
}

NetworkCost::NetworkCost(const cluster::Profile& profile, std::shared_ptr<TypeCosts> of_types)
    : types{of_types ? std::move(of_types) : type_costs_of(profile)},
      paths{profile, types->fits()},
      profile_{profile},
      copies_known_{std::ranges::any_of(profile.device_types, knows_copies)} {}

/// Adding `count` numbers of `element` bytes to as many others.
Cost NetworkCost::add(const std::string& type, double count, Bytes element) {
  const auto& measured = types->per_element(type, "add", element.count == 2 ? Precision::bf16 : Precision::fp32);
  if (measured) return {measured->time * count, measured->relative_error, false};
  return stream_cost(profile_, type, {static_cast<std::int64_t>(count * 3) * element.count});
}

/// Everybody sends `size` to each of the other members at once: a member's messages share its own link, its host's cards with those of
/// the members beside it, and its zone's uplink with those of all who stand behind it. The slowest pair decides.
Cost NetworkCost::exchange(const Paths::GroupTopology& group_topology, Bytes size, std::size_t members, const Flows& flows) const {
  Cost slowest;
  for (int path : group_topology.paths) {
    const auto& route = paths.route(path);
    const auto loads = loads_of(group_topology, members, route, flows);
    const Seconds latency = route.time({0}, 1);
    Seconds all = longest(loads, latency, [&](int at_once) { return route.time(size, over_cards(at_once)); });
    if (route.passes_uplinks()) {
      const Seconds alone = route.time(size, 1) - latency;
      all = std::max(all, latency + through_uplinks(group_topology, size, members, flows, alone));
    }
    if (all >= slowest.time) slowest = {all, route.relative_scatter(), false};
  }
  return slowest;
}

/// Half an all-reduce as it was measured between two, each further member adding what the bytes take. The slowest pair decides. Absent
/// where some pair's was not measured.
std::optional<Cost> NetworkCost::half_sum(const Paths::GroupTopology& group_topology, Bytes piece, std::size_t members,
                                          const Flows& flows) const {
  Cost slowest;
  for (int path : group_topology.paths) {
    const auto& route = paths.route(path);
    if (!route.measures_sums()) return std::nullopt;
    const auto loads = loads_of(group_topology, members, route, flows);
    const Seconds latency = route.sum_time({0}, 1);
    Seconds all = longest(loads, latency, [&](int at_once) { return route.sum_time(piece, at_once); });
    if (route.passes_uplinks()) {
      const Seconds alone = route.sum_time(piece, 1) - latency;
      all = std::max(all, latency + through_uplinks(group_topology, piece, members, flows, alone));
    }
    if (all >= slowest.time) slowest = {all, route.relative_scatter(), false};
  }
  return slowest;
}

/// The "direct" sum (program/collectives.hpp): pieces to their owners, sums of G contributions, sums to everybody.
Cost NetworkCost::all_reduce(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows) {
  return sum(some, members, bytes, element, flows, true);
}
/// Its first half, up to the sums.
Cost NetworkCost::reduce_scatter(const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
  return sum(group.members, group.members.size(), bytes, element, flows, false);
}

/// Everybody's contribution to everybody, both ways at once as in a sum: where that was measured, half of it, since a message one way
/// does not show what two that meet take from each other.
Cost NetworkCost::all_gather(const program::Group& group, Bytes bytes, const Flows& flows) {
  const auto& group_topology = paths.group_topology(group.members);
  const auto half = half_sum(group_topology, bytes, group.members.size(), flows);
  return half ? *half : exchange(group_topology, bytes, group.members.size(), flows);
}

Cost NetworkCost::sum(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows,
                      bool to_everybody) {
  const auto owners = static_cast<std::int64_t>(members);
  const std::int64_t piece = (bytes.count / element.count + owners - 1) / owners;
  const auto& group_topology = paths.group_topology(some);
  if (const auto half = half_sum(group_topology, piece * element, members, flows)) return to_everybody ? combine(*half, *half, {}) : *half;
  const Cost exchanged = exchange(group_topology, piece * element, members, flows);
  Cost sum;
  for (const auto& type : group_topology.types) {
    const Cost here = add(type, static_cast<double>(piece * (owners - 1)), element);
    if (here.time >= sum.time) sum = here;
  }
  return combine(exchanged, to_everybody ? exchanged : Cost{}, sum);
}

/// One way of a level of a sum hierarchically: the holders of each piece in one subgroup's inner ones exchange it; those who stand on one
/// host do so over the same cards. The slowest subgroup decides.
Cost NetworkCost::level_of(const std::vector<SubgroupShape>& subgroups, bool gives_back, bool adds, Bytes bytes, Bytes element,
                           const Flows& flows) {
  Cost slowest;
  for (const SubgroupShape& subgroup : subgroups) {
    const auto& group_topology = paths.group_topology(subgroup.firsts);
    for (const SubgroupShape::Inner& inner : subgroup.inner) {
      const auto divided = std::int64_t{inner.members} * subgroup.subgroups();
      const std::int64_t piece = (bytes.count / element.count + divided - 1) / divided;
      const Flows at_once{flows.cards * inner.beside, flows.out * inner.behind};
      const Cost here = remembered_sum_of(
          group_topology, {group_topology.hash, piece, element, static_cast<std::size_t>(subgroup.subgroups()), at_once, gives_back, adds});
      if (here.time >= slowest.time) slowest = here;
    }
  }
  return slowest;
}

std::size_t NetworkCost::LevelExchangeHash::operator()(const LevelExchange& e) const {
  std::uint64_t hash = e.topology;
  for (const std::int64_t value :
       {e.piece, e.element.count, static_cast<std::int64_t>(e.subgroups), std::int64_t{e.flows.cards}, std::int64_t{e.flows.out},
        std::int64_t{e.flows.in}, static_cast<std::int64_t>(2 * e.gives_back + e.adds)})
    hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(value);
  return Philox::mix(hash);
}

/// Searches ask for sums over ever new groups, of which many are joined alike.
Cost NetworkCost::remembered_sum_of(const Paths::GroupTopology& group_topology, const LevelExchange& exchanged) {
  if (const auto found = level_exchanges_.find(exchanged); found != level_exchanges_.end()) return found->second;
  return level_exchanges_[exchanged] = sum_of(group_topology, exchanged);
}

/// Pieces to their owners (where something is added), sums of all contributions, sums back.
Cost NetworkCost::sum_of(const Paths::GroupTopology& group_topology, const LevelExchange& of) {
  if (const auto half = of.adds ? half_sum(group_topology, of.piece * of.element, of.subgroups, of.flows) : std::nullopt)
    return combine(*half, of.gives_back ? *half : Cost{}, {});
  const Cost exchanged = exchange(group_topology, of.piece * of.element, of.subgroups, of.flows);
  Cost sum;
  for (const auto& type : group_topology.types) {
    const Cost here = of.adds ? add(type, static_cast<double>(of.piece) * static_cast<double>(of.subgroups - 1), of.element) : Cost{};
    if (here.time >= sum.time) sum = here;
  }
  return combine(exchanged, of.adds && of.gives_back ? exchanged : Cost{}, sum);
}

Cost NetworkCost::in_subgroups(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
  const bool gives_back = kind == CollectiveKind::all_reduce, adds = kind != CollectiveKind::all_gather_shards;
  Cost all;
  for (const auto& subgroups : subgroup_shapes_.of(group))
    all = combine(all, level_of(subgroups, gives_back, adds, bytes, element, flows), {});
  return all;
}

Cost NetworkCost::library(CollectiveKind kind, const program::Group& group, Bytes bytes, const Flows& flows) {
  double scatter = 0;
  for (int path : paths.inside(group.members)) scatter = std::max(scatter, paths.route(path).relative_scatter());
  if (kind == CollectiveKind::all_reduce) return {library_all_reduce(paths, group, bytes, flows), scatter, false};
  if (kind == CollectiveKind::reduce_scatter_shards || kind == CollectiveKind::all_gather_shards)
    return {library_half(paths, group, bytes, flows), scatter, false};
  return {library_exchange(paths, group, bytes, flows), scatter, false};
}

/// A member on a GPU whose messages go through its host brings what it gives there and takes back what comes. The slowest member decides.
Cost NetworkCost::copies(const std::vector<Rank>& members, Bytes given, Bytes taken) {
  Cost slowest;
  if (!copies_known_) return slowest;
  for (const auto& name : paths.group_topology(members).types)
    if (const auto* type = cluster::find_type(profile_, name))
      slowest.time = std::max(slowest.time, type->to_host.time(given) + type->to_device.time(taken));
  return slowest;
}

/// Whether links end at devices' memories: GPUs whose copies nobody measured, because links were.
bool NetworkCost::links_join_devices(const std::vector<Rank>& members) {
  return std::ranges::all_of(paths.group_topology(members).types, [&](const std::string& name) {
    const auto* type = cluster::find_type(profile_, name);
    return type != nullptr && type->kind == cluster::DeviceKind::gpu && !type->to_host.known();
  });
}

Cost NetworkCost::message(Rank from, Rank to, Bytes size, const Flows& flows) {
  const auto& route = paths.route(paths.between(from, to));
  return {route.time(size, flows) + route.copies(size), route.relative_scatter(), false};
}

Cost NetworkCost::collective(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
  const bool by_description = group.algorithm == program::Group::Algorithm::library;
  if (by_description || (library_sums && program::by_library(group, kind) && links_join_devices(group.members)))
    return library(kind, group, bytes, flows);
  const auto all = kind == CollectiveKind::all_gather ? static_cast<std::int64_t>(group.members.size()) * bytes : bytes;
  const Bytes taken = kind == CollectiveKind::reduce_scalars ? Bytes{} : all;
  return with_copies(over_network(kind, group, bytes, element, flows), copies(group.members, bytes, taken));
}

Cost NetworkCost::sum_over_many(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows) {
  return with_copies(all_reduce(some, members, bytes, element, flows), copies(some, bytes, bytes));
}
Cost NetworkCost::over_network(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
  const bool halves = kind == CollectiveKind::reduce_scatter_shards || kind == CollectiveKind::all_gather_shards;
  if (halves || (kind == CollectiveKind::all_reduce && !group.subgroups.empty())) return in_subgroups(kind, group, bytes, element, flows);
  if (kind == CollectiveKind::all_reduce) return all_reduce(group.members, group.members.size(), bytes, element, flows);
  if (kind == CollectiveKind::reduce_scatter) return reduce_scatter(group, bytes, element, flows);
  if (kind == CollectiveKind::all_gather) return all_gather(group, bytes, flows);
  return exchange(paths.group_topology(group.members), bytes, group.members.size(), flows);
}

std::uint64_t NetworkCost::path(const program::Group& group) {
  std::uint64_t hash = paths.group_topology(group.members).hash;
  if (const auto ways = paths.node_ways(group.members))
    hash = joined(hash, static_cast<std::uint64_t>(ways->shape.rings) << 8 | static_cast<std::uint64_t>(ways->shape.chains));
  if (group.subgroups.empty()) return hash;
  std::uint64_t level_number = 0;
  for (const auto& level : subgroup_shapes_.of(group)) {
    std::uint64_t subgroups = ++level_number;
    for (const SubgroupShape& subgroup : level) {  // in any order, each once: which subgroup decides does not depend on it
      std::uint64_t one = static_cast<std::uint64_t>(subgroup.subgroups());
      for (const auto& inner : subgroup.inner)
        one = joined(joined(joined(one, static_cast<std::uint64_t>(inner.members)), static_cast<std::uint64_t>(inner.beside)),
                     static_cast<std::uint64_t>(inner.behind));
      one = joined(one, paths.group_topology(subgroup.firsts).hash);
      subgroups += Philox::mix(one);
    }
    hash = joined(hash, subgroups);
  }
  return hash;
}

}  // namespace flotilla::simulate
