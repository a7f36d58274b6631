#include "concurrent_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "places.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

constexpr std::size_t most_zones = 16;
constexpr int most_alone = 4, least_rounds = 2, most_rounds = 5, most_messages = 64;
constexpr Bytes largest{8 << 20}, page{4096};
constexpr Seconds turn{0.02};     // long beside the millisecond by which pairs begin apart
constexpr double clearly = 0.75;  // of what they would move; above, it may be the machine

/// By zone the first ranks of its hosts; a host of several zones counts for the first of them.
std::vector<std::vector<Rank>> hosts_of(const std::vector<HostOrZone>& zones, const std::vector<cluster::Device>& devices) {
  std::vector<std::vector<Rank>> hosts(zones.size());
  for (const HostOrZone& host : places(devices, [](const auto& d) { return d.host; })) {
    const auto zone = std::ranges::find(zones, devices[host.ranks.front().index()].zone, &HostOrZone::name);
    hosts[static_cast<std::size_t>(zone - zones.begin())].push_back(host.ranks.front());
  }
  return hosts;
}

/// The hosts of all zones but one, zone by zone in turns.
std::vector<Rank> others(const std::vector<std::vector<Rank>>& hosts, std::size_t zone) {
  std::vector<Rank> found;
  std::size_t most = 0;
  for (const auto& of_zone : hosts) most = std::max(most, of_zone.size());
  for (std::size_t h = 0; h < most; ++h)
    for (std::size_t z = 0; z < hosts.size(); ++z)
      if (z != zone && h < hosts[z].size()) found.push_back(hosts[z][h]);
  return found;
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

std::vector<PairSet> pair_sets(const std::vector<cluster::Device>& devices) {
  const auto zones = places(devices, [](const auto& d) { return d.zone; });
  const auto hosts = hosts_of(zones, devices);
  std::vector<PairSet> found;
  for (std::size_t z = 0; z < std::min(zones.size(), most_zones); ++z) {
    const auto outside = others(hosts, z);
    const std::size_t count = std::min(hosts[z].size(), outside.size());
    if (count < 2) continue;
    PairSet pair_set{{zones[z].name}, {}};
    for (std::size_t p = 0; p < count; ++p) pair_set.pairs.emplace_back(hosts[z][p], outside[p]);
    if (zones.size() == 2) pair_set.zones.push_back(zones[1 - z].name);
    found.push_back(std::move(pair_set));
    if (zones.size() == 2) break;  // the other zone's are the same pairs
  }
  return found;
}

Pace pace_of(Seconds pilot, std::size_t pairs, Seconds budget) {
  const auto least = static_cast<double>(pilot_size.count), most = static_cast<double>(largest.count);
  const Seconds one = std::max(pilot, Seconds{1e-9});
  const double bytes = std::clamp(least * (turn / one), least, most);
  Pace pace;
  pace.size = {static_cast<std::int64_t>(bytes) / page.count * page.count};
  const Seconds message = one * (bytes / least);
  pace.messages = static_cast<int>(std::clamp(std::ceil(turn / message), 1.0, double{most_messages}));
  const Seconds each = message * static_cast<double>(pace.messages);  // a pair by itself; all of them take as many times as long at most
  const double turns = budget / each;
  pace.pairs = static_cast<int>(std::clamp(turns / least_rounds - most_alone, 2.0, static_cast<double>(pairs)));
  pace.alone = std::min(pace.pairs, most_alone);
  pace.rounds = static_cast<int>(std::clamp(turns / (pace.pairs + pace.alone), double{least_rounds}, double{most_rounds}));
  return pace;
}

std::optional<BytesPerSecond> shared_rate(const std::vector<PairSetRound>& rounds) {
  std::vector<double> together, ratios;
  for (const auto& round : rounds) {
    if (round.alone.empty() || round.together.size() < 2) continue;
    together.push_back(sum(round.together));
    ratios.push_back(together.back() / (mean(round.alone) * static_cast<double>(round.together.size())));
  }
  if (ratios.empty() || median(ratios) >= clearly) return std::nullopt;
  return BytesPerSecond{median(together)};
}

}  // namespace flotilla::probe
