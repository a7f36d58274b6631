#include "paths.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/philox.hpp"

namespace flotilla::simulate {
namespace {

constexpr std::size_t few_instructions = 256;
constexpr std::size_t most_remembered = 1 << 22;  // ranks

bool same_spot(const cluster::Device& a, const cluster::Device& b) { return a.host == b.host && a.type == b.type && a.zone == b.zone; }

std::uint64_t hash_of(const Paths::GroupTopology& group_topology) {
  std::uint64_t hash = static_cast<std::uint64_t>(group_topology.members);
  const auto add = [&](std::uint64_t value) { hash = Philox::mix(hash ^ Philox::mix(value)); };
  add(static_cast<std::uint64_t>(group_topology.most_of_a_host) << 32 | static_cast<std::uint64_t>(group_topology.least_of_a_host));
  for (int path : group_topology.paths) add(static_cast<std::uint64_t>(path));
  for (const auto& [uplink, members] : group_topology.behind)
    add(std::bit_cast<std::uint64_t>(uplink.value)), add(static_cast<std::uint64_t>(members));
  for (const auto& type : group_topology.types) add(fnv1a(type));
  return hash;
}

}  // namespace

Paths::Paths(const cluster::Profile& profile, const FitsByTypes& fits) : profile_{profile}, fits_{fits} {
  std::unordered_map<std::string_view, int> hosts, types;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, int> instructions;
  std::map<std::pair<int, int>, int> spots;
  places_.reserve(profile.devices.size());
  for (std::size_t i = 0; i < profile.devices.size(); ++i) {
    const auto& device = profile.devices[i];
    if (device.rank != Rank{static_cast<int>(i)}) index_.emplace(device.rank.value, i);
    PathPlace& place = places_.emplace_back();
    place.rank = device.rank;
    if (i > 0 && same_spot(device, profile.devices[i - 1])) {
      place = places_[i - 1];
      place.rank = device.rank;
      continue;
    }
    const auto if_named = [&](const std::string& name) { return fits.knows(name) ? std::string_view{name} : std::string_view{}; };
    const bool same_kind = i > 0 && device.zone == profile.devices[i - 1].zone && device.type == profile.devices[i - 1].type;
    if (same_kind) place = places_[i - 1], place.rank = device.rank;  // but for its host
    const std::string_view named_host = if_named(device.host);
    place.host = hosts.try_emplace(device.host, static_cast<int>(hosts.size())).first->second;
    if (!same_kind || !named_host.empty() || fits.knows(profile.devices[i - 1].host)) {
      const std::tuple instruction{std::string_view{device.zone}, named_host, if_named(device.type)};
      place.instruction = instructions.try_emplace(instruction, static_cast<int>(instructions.size())).first->second;
    }
    place.spot = spots.try_emplace({place.host, place.instruction}, static_cast<int>(spots.size())).first->second;
    if (same_kind) continue;
    if (const auto* uplink = cluster::uplink_of(profile, device.zone)) place.uplink = static_cast<int>(uplink - profile.uplinks.data());
    place.type = types.try_emplace(device.type, static_cast<int>(types.size())).first->second;
  }
  types_.resize(types.size());
  for (const auto& [name, number] : types) types_[static_cast<std::size_t>(number)] = name;
  visits_.resize(instructions.size());
  if (instructions.size() <= few_instructions) known_.assign(2 * instructions.size() * instructions.size(), -1);
  on_host_.resize(hosts.size());
  on_spot_.resize(spots.size());
}

std::size_t Paths::position_of_other(Rank rank) const {
  const auto found = index_.find(rank.value);
  FLOTILLA_REQUIRE(found != index_.end(), ErrorKind::bad_input, "the plan uses rank ", rank, ", but the cluster profile lists ",
                   profile_.devices.size(), " devices and none for it; measure again with 'flotilla probe' or plan for these devices");
  return found->second;
}

int Paths::number_of(Route route) {
  const auto same_link = [](const cluster::Link* a, const cluster::Link* b) {
    if (!a || !b) return a == b;
    return a->level == b->level && a->pieces == b->pieces && a->sum_pieces == b->sum_pieces && a->relative_scatter == b->relative_scatter &&
           a->lanes == b->lanes;
  };
  const auto same = [&](const Route& other) {
    return other.inside_host == route.inside_host && other.from_device == route.from_device && other.to_device == route.to_device &&
           other.out == route.out && other.in == route.in && other.fits == route.fits && same_link(other.link, route.link);
  };
  const auto found = std::ranges::find_if(routes_, same);
  if (found != routes_.end()) return static_cast<int>(found - routes_.begin());
  routes_.push_back(std::move(route));
  return static_cast<int>(routes_.size()) - 1;
}

Route Paths::route_between(Rank from, Rank to) const {
  Route route;
  const auto &a = device(from), &b = device(to);
  route.inside_host = a.host == b.host;
  if (!cluster::stated_link(profile_, a, b)) route.fits = fits_.between(a, b);
  if (route.fits.empty()) route.link = &cluster::link_between(profile_, from, to);
  if (const auto* type = cluster::find_type(profile_, a.type)) route.from_device = type->to_host;
  if (const auto* type = cluster::find_type(profile_, b.type)) route.to_device = type->to_device;
  if (a.zone == b.zone) return route;
  if (const int uplink = place(from).uplink; uplink >= 0) route.out = profile_.uplinks[static_cast<std::size_t>(uplink)].bandwidth;
  if (const int uplink = place(to).uplink; uplink >= 0) route.in = profile_.uplinks[static_cast<std::size_t>(uplink)].bandwidth;
  return route;
}

int Paths::between(Rank from, Rank to) {
  const PathPlace &a = place(from), &b = place(to);
  const auto instructions = visits_.size();
  const auto key = (static_cast<std::uint64_t>(a.instruction) * instructions + static_cast<std::uint64_t>(b.instruction)) << 1 |
                   (a.host == b.host ? 1u : 0u);
  int& known = known_.empty() ? known_of_many_.try_emplace(key, -1).first->second : known_[key];
  if (known < 0) known = number_of(route_between(from, to));
  return known;
}

bool Paths::on_one_spot(const std::vector<Rank>& members) const {
  if (members.size() < 2) return false;
  const PathPlace& first = place(members.front());
  return std::ranges::all_of(members, [&](Rank rank) { return place(rank).spot == first.spot && place(rank).type == first.type; });
}

const Paths::GroupTopology& Paths::group_topology(const std::vector<Rank>& members) {
  if (on_one_spot(members)) {  // as tensor-parallel groups do, of which there are many: all those of a instruction and type are alike
    const PathPlace& first = place(members.front());
    const auto [found, fresh] = on_one_spot_.try_emplace({first.instruction, first.type, members.size()});
    if (fresh) found->second = look_at(members);
    return found->second;
  }
  std::uint64_t hash = members.size();
  for (Rank rank : members) hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(rank.value);
  const auto found = remembered_.find(hash);
  if (found != remembered_.end() && found->second.members == members) return found->second.group_topology;
  if (remembered_ranks_ > most_remembered) remembered_.clear(), remembered_ranks_ = 0;
  remembered_ranks_ += members.size();
  return (remembered_[hash] = {members, look_at(members)}).group_topology;
}

Paths::GroupTopology Paths::look_at(const std::vector<Rank>& members) {
  ++group_;
  visited_.clear();
  paths_.clear();
  std::vector<int> types;
  for (Rank rank : members) {
    const int type = place(rank).type;
    if (std::ranges::find(types, type) == types.end()) types.push_back(type);
    visit(rank);
  }
  for (int instruction : visited_)
    for (int other : visited_)
      if (other != instruction) join(visits_[static_cast<std::size_t>(instruction)], visits_[static_cast<std::size_t>(other)]);
  std::ranges::sort(paths_);
  GroupTopology group_topology{paths_, {}};
  group_topology.members = static_cast<int>(members.size());
  group_topology.behind = behind_uplinks(members);
  group_topology.least_of_a_host = static_cast<int>(members.size());
  for (Rank rank : members) {
    const int here = on_host_[static_cast<std::size_t>(place(rank).host)].members;
    group_topology.most_of_a_host = std::max(group_topology.most_of_a_host, here);
    group_topology.least_of_a_host = std::min(group_topology.least_of_a_host, here);
  }
  for (int type : types) group_topology.types.push_back(types_[static_cast<std::size_t>(type)]);
  std::ranges::sort(group_topology.types);
  group_topology.hash = hash_of(group_topology);
  return group_topology;
}

std::optional<Paths::NodeWays> Paths::node_ways(const std::vector<Rank>& members) {
  const PathPlace& first = place(members.front());
  const auto* type = cluster::find_type(profile_, device(members.front()).type);
  if (type == nullptr || type->node_links.bundles.empty()) return std::nullopt;
  std::vector<int> devices;
  for (const Rank rank : members) {
    if (place(rank).host != first.host || place(rank).type != first.type) return std::nullopt;
    devices.push_back(device(rank).local_rank);
  }
  std::ranges::sort(devices);
  const auto [found, fresh] = node_shapes_.try_emplace({first.type, devices});
  if (fresh) found->second = shape_of(type->node_links, devices);
  return NodeWays{found->second, type->node_links.each};
}

BytesPerSecond Paths::switch_sums(const std::vector<Rank>& members) const {
  BytesPerSecond least{};
  for (const Rank rank : members) {
    const auto* type = cluster::find_type(profile_, device(rank).type);
    if (type == nullptr || !(type->switch_sums.value > 0) || place(rank).host != place(members.front()).host) return {};
    if (rank == members.front() || type->switch_sums < least) least = type->switch_sums;
  }
  return least;
}

std::vector<Paths::GroupTopology::Behind> Paths::behind_uplinks(const std::vector<Rank>& members) const {
  if (profile_.uplinks.empty()) return {};
  std::vector<int> counts(profile_.uplinks.size(), 0);
  for (Rank rank : members)
    if (const int uplink = place(rank).uplink; uplink >= 0) ++counts[static_cast<std::size_t>(uplink)];
  std::set<GroupTopology::Behind> found;
  for (std::size_t u = 0; u < counts.size(); ++u)
    if (counts[u] > 0 && counts[u] < static_cast<int>(members.size())) found.insert({profile_.uplinks[u].bandwidth, counts[u]});
  return {found.begin(), found.end()};
}

void Paths::add_path(Rank from, Rank to) {
  const auto path = static_cast<std::size_t>(between(from, to));
  if (group_of_path_.size() <= path) group_of_path_.resize(routes_.size(), 0);
  if (group_of_path_[path] == group_) return;
  group_of_path_[path] = group_;
  paths_.push_back(static_cast<int>(path));
}

/// Two instructions, on one host and on different ones as the members have it.
void Paths::join(const PathVisit& instruction, const PathVisit& other) {
  add_path(instruction.first, other.first);
  if (place(instruction.first).host != place(other.first).host) return;
  if (other.elsewhere.valid()) add_path(instruction.first, other.elsewhere);
  if (instruction.elsewhere.valid()) add_path(instruction.elsewhere, other.first);
}

void Paths::visit(Rank rank) {
  const PathPlace& here = place(rank);
  PathVisit& instruction = visits_[static_cast<std::size_t>(here.instruction)];
  Seen &host = on_host_[static_cast<std::size_t>(here.host)], &spot = on_spot_[static_cast<std::size_t>(here.spot)];
  if (instruction.number != group_) {
    instruction = {group_, rank, {}, false};
    visited_.push_back(here.instruction);
  }
  if (host.number != group_)
    host = {group_, rank, 0};
  else if (place(host.first).instruction != here.instruction)
    add_path(host.first, rank), add_path(rank, host.first);
  ++host.members;
  if (spot.number != group_) {
    spot = {group_, rank, 0};
  } else if (!instruction.shares_a_host) {
    instruction.shares_a_host = true;
    add_path(spot.first, rank);
  }
  if (!instruction.elsewhere.valid() && place(instruction.first).host != here.host) {
    instruction.elsewhere = rank;
    add_path(instruction.first, rank), add_path(rank, instruction.first);
  }
}

}  // namespace flotilla::simulate
