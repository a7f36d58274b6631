#include "paths.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "flotilla/base/error.hpp"

namespace flotilla::simulate {

Paths::Paths(const cluster::Profile& profile) : profile_{profile} {
  std::set<std::string> named;
  for (const auto& link : profile.links) named.insert({link.from, link.to});
  for (const auto& fit : profile.link_fits) named.insert({fit.from_type, fit.to_type});
  std::map<std::string, int> hosts;
  std::map<std::tuple<std::string, std::string, std::string>, int> sites;
  for (std::size_t i = 0; i < profile.devices.size(); ++i) {
    const auto& device = profile.devices[i];
    if (device.rank != Rank{static_cast<int>(i)}) index_.emplace(device.rank.value, i);
    const auto if_named = [&](const std::string& name) { return named.contains(name) ? name : std::string{}; };
    const std::tuple site{device.zone, if_named(device.host), if_named(device.type)};
    places_.push_back({hosts.try_emplace(device.host, static_cast<int>(hosts.size())).first->second,
                       sites.try_emplace(site, static_cast<int>(sites.size())).first->second});
  }
}

std::size_t Paths::position(Rank rank) const {
  if (rank.valid() && rank.index() < profile_.devices.size() && profile_.devices[rank.index()].rank == rank) return rank.index();
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
    return other.inside_host == route.inside_host && other.fits == route.fits && same_link(other.link, route.link);
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
  route.fits = fits_between(profile_, a, b);
  if (route.fits.empty()) route.link = &cluster::link_between(profile_, from, to);
  return route;
}

int Paths::between(Rank from, Rank to) {
  const Place a = place(from), b = place(to);
  // Sites are fewer than devices, so two of them and a bit have room in a word.
  const auto key = static_cast<std::uint64_t>(a.site) << 33 | static_cast<std::uint64_t>(b.site) << 1 | (a.host == b.host ? 1u : 0u);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_[key] = number_of(route_between(from, to));
}

std::vector<int> Paths::inside(const std::vector<Rank>& members) {
  // One pair stands for all pairs of the same two sites; within a site it takes two members of one host and two of different hosts.
  std::map<int, std::vector<Rank>> by_site;
  for (Rank rank : members) by_site[place(rank).site].push_back(rank);
  std::set<int> paths;
  for (const auto& [site, ranks] : by_site) {
    std::map<int, Rank> first_of_host;
    bool shares_a_host = false;
    for (Rank rank : ranks) {
      const auto [first, fresh] = first_of_host.try_emplace(place(rank).host, rank);
      if (!fresh && !shares_a_host) shares_a_host = true, paths.insert(between(first->second, rank));
    }
    if (first_of_host.size() > 1) {
      const Rank one = first_of_host.begin()->second, two = std::next(first_of_host.begin())->second;
      paths.insert({between(one, two), between(two, one)});
    }
    for (const auto& [other, others] : by_site)
      if (other != site) paths.insert(between(ranks.front(), others.front()));
  }
  return {paths.begin(), paths.end()};
}

}  // namespace flotilla::simulate
