#include "shared_state.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "assignment.hpp"
#include "flotilla/program/kept_state.hpp"

namespace flotilla::search {
namespace {

constexpr std::size_t most_pairs = 16'384;  // of devices that differ, each with a lane of its own
constexpr std::size_t samples = 8;

/// Devices of one type and zone at one tensor index of one stage's replicas.
struct Peers {
  std::vector<Rank> ranks;  ///< in the order of their replicas; one of them where all hold the same
  std::int64_t count = 0;   ///< devices
  bool alike() const { return static_cast<std::int64_t>(ranks.size()) < count; }
  Rank rank(std::size_t i) const { return ranks[std::min(i, ranks.size() - 1)]; }
};
using Place = std::pair<std::string, std::string>;  // type, zone
using PeersByPlace = std::map<Place, std::vector<Peers>>;

/// Every device a rank, replica by replica.
plan::Plan on_ranks(plan::Plan plan) {
  const auto own = static_cast<std::size_t>(plan::own_stages(plan));
  int next = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (std::size_t r = 0; r < plan.stages[s].replicas.size(); ++r) {
      plan::Replica& replica = plan.stages[s].replicas[r];
      replica.devices.clear();
      for (int i = 0; s < own && i < replica.tensor_parallel; ++i) replica.devices.push_back(Rank{next++});
      if (s >= own) replica.devices = plan.stages[s % own].replicas[r].devices;
    }
  return plan;
}

PeersByPlace peers_of(const plan::Plan& plan) {
  std::map<Place, std::map<std::array<int, 3>, Peers>> found;  // by stage, tensor degree and index
  for (int s = 0; s < plan::own_stages(plan); ++s)
    for (const plan::Replica& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      for (int i = 0; i < replica.tensor_parallel; ++i) {
        Peers& peers = found[{replica.device_type, replica.zone}][{s, replica.tensor_parallel, i}];
        if (plan.shard_optimizer || peers.ranks.empty()) peers.ranks.push_back(replica.devices[static_cast<std::size_t>(i)]);
        ++peers.count;
      }
  PeersByPlace all;
  for (auto& [place, by_index] : found)
    for (auto& [index, peers] : by_index) all[place].push_back(std::move(peers));
  return all;
}

std::vector<Peers> one_by_one(const std::vector<Peers>& all) {
  std::vector<Peers> out;
  for (const Peers& peers : all) {
    if (peers.alike())
      out.push_back(peers);
    else
      for (const Rank rank : peers.ranks) out.push_back({{rank}, 1});
  }
  return out;
}

/// What one of `after` keeps that was one of `before`, in the order of their replicas where these differ.
std::int64_t kept_by_one(const program::KeptState& state, const Peers& before, const Peers& after) {
  const auto length = [](const Peers& p) { return p.alike() ? static_cast<std::size_t>(p.count) : p.ranks.size(); };
  const std::size_t most = before.alike() && after.alike() ? 1 : std::min(length(before), length(after)), looked = std::min(most, samples);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < looked; ++i) sum += state.kept(before.rank(i * most / looked), after.rank(i * most / looked)).count;
  return sum / static_cast<std::int64_t>(looked);
}

std::int64_t kept(const program::KeptState& state, std::vector<Peers> before, std::vector<Peers> after) {
  auto each_before = one_by_one(before), each_after = one_by_one(after);
  if (each_before.size() * each_after.size() <= most_pairs) before = std::move(each_before), after = std::move(each_after);
  std::vector<std::int64_t> sources, sinks;
  std::vector<Lane> lanes;
  for (const Peers& fresh : after) sinks.push_back(fresh.count);
  for (const Peers& old : before) {
    for (std::size_t sink = 0; sink < after.size(); ++sink)
      if (const auto gain = kept_by_one(state, old, after[sink]); gain > 0)
        lanes.push_back({static_cast<int>(sources.size()), static_cast<int>(sink), gain});
    sources.push_back(old.count);
  }
  return lanes.empty() ? 0 : largest_gain(sources, sinks, lanes);
}

std::int64_t wanted(const program::KeptState& state, const PeersByPlace& all) {
  std::int64_t sum = 0;
  for (const auto& [place, some] : all)
    for (const Peers& peers : some) {
      if (peers.alike())
        sum += peers.count * state.wanted(peers.ranks.front()).count;
      else
        for (const Rank rank : peers.ranks) sum += state.wanted(rank).count;
    }
  return sum;
}

}  // namespace

Bytes state_with_shares(const plan::Plan& plan) {
  const plan::Plan bound = on_ranks(plan);
  return {wanted(program::KeptState{bound, bound}, peers_of(bound))};
}

Bytes moved_with_shares(const plan::Plan& previous, const plan::Plan& next) {
  const plan::Plan from = on_ranks(previous), to = on_ranks(next);
  const program::KeptState state{from, to};
  const auto before = peers_of(from), after = peers_of(to);
  std::int64_t missing = wanted(state, after);
  for (const auto& [place, some] : after)
    if (const auto held = before.find(place); held != before.end()) missing -= kept(state, held->second, some);
  return {missing};
}

}  // namespace flotilla::search
