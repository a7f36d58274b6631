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

constexpr std::size_t few_sites = 256;
constexpr std::size_t most_remembered = 1 << 22;  // ranks

bool same_spot(const cluster::Device& a, const cluster::Device& b) { return a.host == b.host && a.type == b.type && a.zone == b.zone; }

std::uint64_t hash_of(const Paths::Company& company) {
  std::uint64_t hash = static_cast<std::uint64_t>(company.members);
  const auto add = [&](std::uint64_t value) { hash = Philox::mix(hash ^ Philox::mix(value)); };
  add(static_cast<std::uint64_t>(company.most_of_a_host) << 32 | static_cast<std::uint64_t>(company.least_of_a_host));
  for (int path : company.paths) add(static_cast<std::uint64_t>(path));
  for (const auto& [uplink, members] : company.behind)
    add(std::bit_cast<std::uint64_t>(uplink.value)), add(static_cast<std::uint64_t>(members));
  for (const auto& type : company.types) add(fnv1a(type));
  return hash;
}

}  // namespace

Paths::Paths(const cluster::Profile& profile, const FitsByTypes& fits) : profile_{profile}, fits_{fits} {
  std::set<std::string> named;
  for (const auto& link : profile.links) named.insert({link.from, link.to});
  std::unordered_map<std::string_view, int> hosts, types;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, int> sites;
  std::map<std::pair<int, int>, int> spots;
  places_.reserve(profile.devices.size());
  for (std::size_t i = 0; i < profile.devices.size(); ++i) {
    const auto& device = profile.devices[i];
    if (device.rank != Rank{static_cast<int>(i)}) index_.emplace(device.rank.value, i);
    Place& place = places_.emplace_back();
    place.rank = device.rank;
    if (i > 0 && same_spot(device, profile.devices[i - 1])) {
      place = places_[i - 1];
      place.rank = device.rank;
      continue;
    }
    const auto if_named = [&](const std::string& name) {
      return named.contains(name) || fits.knows(name) ? std::string_view{name} : std::string_view{};
    };
    const std::tuple site{std::string_view{device.zone}, if_named(device.host), if_named(device.type)};
    place.host = hosts.try_emplace(device.host, static_cast<int>(hosts.size())).first->second;
    place.site = sites.try_emplace(site, static_cast<int>(sites.size())).first->second;
    place.spot = spots.try_emplace({place.host, place.site}, static_cast<int>(spots.size())).first->second;
    if (const auto* uplink = cluster::uplink_of(profile, device.zone)) place.uplink = static_cast<int>(uplink - profile.uplinks.data());
    place.type = types.try_emplace(device.type, static_cast<int>(types.size())).first->second;
  }
  types_.resize(types.size());
  for (const auto& [name, number] : types) types_[static_cast<std::size_t>(number)] = name;
  visits_.resize(sites.size());
  if (sites.size() <= few_sites) known_.assign(2 * sites.size() * sites.size(), -1);
  on_host_.resize(hosts.size());
  on_spot_.resize(spots.size());
}

std::size_t Paths::position(Rank rank) const {
  if (rank.valid() && rank.index() < places_.size() && places_[rank.index()].rank == rank) return rank.index();
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
    return other.inside_host == route.inside_host && other.out == route.out && other.in == route.in && other.fits == route.fits &&
           same_link(other.link, route.link);
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
  route.fits = fits_.between(a, b);
  if (route.fits.empty()) route.link = &cluster::link_between(profile_, from, to);
  if (a.zone == b.zone) return route;
  if (const int uplink = place(from).uplink; uplink >= 0) route.out = profile_.uplinks[static_cast<std::size_t>(uplink)].bandwidth;
  if (const int uplink = place(to).uplink; uplink >= 0) route.in = profile_.uplinks[static_cast<std::size_t>(uplink)].bandwidth;
  return route;
}

int Paths::between(Rank from, Rank to) {
  const Place &a = place(from), &b = place(to);
  const auto sites = visits_.size();
  const auto key = (static_cast<std::uint64_t>(a.site) * sites + static_cast<std::uint64_t>(b.site)) << 1 | (a.host == b.host ? 1u : 0u);
  int& known = known_.empty() ? known_of_many_.try_emplace(key, -1).first->second : known_[key];
  if (known < 0) known = number_of(route_between(from, to));
  return known;
}

bool Paths::on_one_spot(const std::vector<Rank>& members) const {
  return members.size() > 1 && std::ranges::all_of(members, [&](Rank rank) { return place(rank).spot == place(members.front()).spot; });
}

const Paths::Company& Paths::company(const std::vector<Rank>& members) {
  if (on_one_spot(members)) {  // as tensor-parallel groups do, of which there are many: all those of a site are alike
    const auto [found, fresh] = on_one_spot_.try_emplace({place(members.front()).site, members.size()});
    if (fresh) found->second = look_at(members);
    return found->second;
  }
  std::uint64_t hash = members.size();
  for (Rank rank : members) hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(rank.value);
  const auto found = remembered_.find(hash);
  if (found != remembered_.end() && found->second.members == members) return found->second.company;
  if (remembered_ranks_ > most_remembered) remembered_.clear(), remembered_ranks_ = 0;
  remembered_ranks_ += members.size();
  return (remembered_[hash] = {members, look_at(members)}).company;
}

Paths::Company Paths::look_at(const std::vector<Rank>& members) {
  ++group_;
  visited_.clear();
  std::set<int> paths, types;
  for (Rank rank : members) {
    types.insert(place(rank).type);
    visit(rank, paths);
  }
  for (int site : visited_)
    for (int other : visited_)
      if (other != site) join(visits_[static_cast<std::size_t>(site)], visits_[static_cast<std::size_t>(other)], paths);
  Company company{{paths.begin(), paths.end()}, {}};
  company.members = static_cast<int>(members.size());
  company.behind = behind_uplinks(members);
  company.least_of_a_host = static_cast<int>(members.size());
  for (Rank rank : members) {
    const int here = on_host_[static_cast<std::size_t>(place(rank).host)].members;
    company.most_of_a_host = std::max(company.most_of_a_host, here);
    company.least_of_a_host = std::min(company.least_of_a_host, here);
  }
  for (int type : types) company.types.push_back(types_[static_cast<std::size_t>(type)]);
  std::ranges::sort(company.types);
  company.hash = hash_of(company);
  return company;
}

std::vector<Paths::Company::Behind> Paths::behind_uplinks(const std::vector<Rank>& members) const {
  if (profile_.uplinks.empty()) return {};
  std::vector<int> counts(profile_.uplinks.size(), 0);
  for (Rank rank : members)
    if (const int uplink = place(rank).uplink; uplink >= 0) ++counts[static_cast<std::size_t>(uplink)];
  std::set<Company::Behind> found;
  for (std::size_t u = 0; u < counts.size(); ++u)
    if (counts[u] > 0 && counts[u] < static_cast<int>(members.size())) found.insert({profile_.uplinks[u].bandwidth, counts[u]});
  return {found.begin(), found.end()};
}

/// Two sites, on one host and on different ones as the members have it.
void Paths::join(const Visit& site, const Visit& other, std::set<int>& paths) {
  paths.insert(between(site.first, other.first));
  if (place(site.first).host != place(other.first).host) return;
  if (other.elsewhere.valid()) paths.insert(between(site.first, other.elsewhere));
  if (site.elsewhere.valid()) paths.insert(between(site.elsewhere, other.first));
}

void Paths::visit(Rank rank, std::set<int>& paths) {
  const Place& here = place(rank);
  Visit& site = visits_[static_cast<std::size_t>(here.site)];
  Seen &host = on_host_[static_cast<std::size_t>(here.host)], &spot = on_spot_[static_cast<std::size_t>(here.spot)];
  if (site.number != group_) {
    site = {group_, rank, {}, false};
    visited_.push_back(here.site);
  }
  if (host.number != group_)
    host = {group_, rank, 0};
  else if (place(host.first).site != here.site)
    paths.insert({between(host.first, rank), between(rank, host.first)});
  ++host.members;
  if (spot.number != group_) {
    spot = {group_, rank, 0};
  } else if (!site.shares_a_host) {
    site.shares_a_host = true;
    paths.insert(between(spot.first, rank));
  }
  if (!site.elsewhere.valid() && place(site.first).host != here.host) {
    site.elsewhere = rank;
    paths.insert({between(site.first, rank), between(rank, site.first)});
  }
}

}  // namespace flotilla::simulate
