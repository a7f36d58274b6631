#include "pairs.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "places.hpp"

namespace flotilla::probe {
namespace {

constexpr std::size_t most_hosts = 16;    // whose inside is measured
constexpr std::size_t most_complete = 8;  // places of which every two are measured

/// Index pairs of `count` places, first < second: all, or a ring and its chords.
std::set<std::pair<std::size_t, std::size_t>> couples(std::size_t count) {
  std::set<std::pair<std::size_t, std::size_t>> found;
  const auto add = [&](std::size_t i, std::size_t j) {
    if (i != j) found.emplace(std::min(i, j), std::max(i, j));
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (count > most_complete) {
      add(i, (i + 1) % count);
      add(i, (i + count / 2) % count);
    } else {
      for (std::size_t j = i + 1; j < count; ++j) add(i, j);
    }
  }
  return found;
}

void add_couples(std::vector<Pair>& all, const std::vector<HostOrZone>& where, cluster::LinkLevel level) {
  for (const auto& [i, j] : couples(where.size()))
    all.push_back({where[i].ranks.front(), where[j].ranks.front(), level, where[i].name, where[j].name});
}

}  // namespace

std::vector<Pair> pairs(const std::vector<cluster::Device>& devices) {
  std::vector<Pair> all;
  std::size_t hosts = 0;
  for (const auto& host : places(devices, [](const auto& d) { return d.host; }))
    if (host.ranks.size() > 1 && hosts++ < most_hosts)
      all.push_back({host.ranks[0], host.ranks[1], cluster::LinkLevel::node, host.name, host.name});
  const auto zones = places(devices, [](const auto& d) { return d.zone; });
  for (const auto& zone : zones) {
    std::vector<cluster::Device> inside;
    std::ranges::copy_if(devices, std::back_inserter(inside), [&](const auto& d) { return d.zone == zone.name; });
    add_couples(all, places(inside, [](const auto& d) { return d.host; }), cluster::LinkLevel::zone);
  }
  add_couples(all, zones, cluster::LinkLevel::wide);
  return all;
}

}  // namespace flotilla::probe
