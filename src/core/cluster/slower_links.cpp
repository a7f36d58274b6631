#include "flotilla/cluster/slower_links.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/transports.hpp"

namespace flotilla::cluster {
namespace {

constexpr std::size_t most_hosts = 64;  // whose pairs are all looked at

/// Level and ends of a link, one way.
using Way = std::tuple<LinkLevel, std::string, std::string>;

const Device& listed_device(const Profile& profile, Rank rank) {
  const auto found = std::ranges::find(profile.devices, rank, &Device::rank);
  FLOTILLA_REQUIRE(found != profile.devices.end(), ErrorKind::bad_input, "the cluster profile lists no device for rank ", rank);
  return *found;
}

Link slower(Link link, double factor) {
  for (auto* pieces : {&link.pieces, &link.sum_pieces})
    for (auto& piece : *pieces) {
      piece.latency = piece.latency * factor;
      piece.bandwidth.value /= factor;
    }
  return link;
}

/// The link as it was from `a` to `b`, under the names of their own hosts or zones.
Link own_link(const Profile& profile, Rank a, Rank b) {
  const auto &from = listed_device(profile, a), &to = listed_device(profile, b);
  Link link = link_between(profile, a, b);
  const bool wide = link.level == LinkLevel::wide;
  link.from = wide ? from.zone : from.host;
  link.to = wide ? to.zone : to.host;
  return link;
}

void put(Profile& profile, Link link) {
  const auto same = [&](const Link& other) { return other.level == link.level && other.from == link.from && other.to == link.to; };
  const auto found = std::ranges::find_if(profile.links, same);
  if (found == profile.links.end())
    profile.links.push_back(std::move(link));
  else
    *found = std::move(link);
}

using Joins = std::function<bool(Rank, Rank)>;

/// A pair that was not measured counts as the slowest of its level, which a slower link must not become: such pairs keep what they had.
void keep_unmeasured(Profile& profile, const Joins& joined) {
  std::map<std::string, Rank> hosts;
  for (const auto& device : profile.devices) hosts.try_emplace(device.host, device.rank);
  if (hosts.size() > most_hosts) return;
  const Profile before = profile;
  for (const auto& [from, a] : hosts)
    for (const auto& [to, b] : hosts) {
      if (from == to || !joined(a, b)) continue;  // of hosts with one rank there is none
      const auto& link = link_between(before, a, b);
      const bool measured = (link.from == from && link.to == to) || (link.from == to && link.to == from);
      if (!measured && link.level != LinkLevel::wide) profile.links.push_back(own_link(before, a, b));
    }
}

/// Profile::links alone, of the pairs that they join.
void slow_down(Profile& profile, std::span<const SlowPair> pairs, const Joins& joined) {
  struct Slow {
    Link link;
    double factor = 1;
  };
  std::map<Way, Slow> slow;
  for (const auto& pair : pairs)
    for (const auto& [a, b] : {std::pair{pair.a, pair.b}, std::pair{pair.b, pair.a}}) {
      if (!joined(a, b)) continue;
      auto link = own_link(profile, a, b);
      const Way way{link.level, link.from, link.to};
      auto& one = slow.try_emplace(way, Slow{std::move(link), 1}).first->second;
      one.factor = std::max(one.factor, pair.factor);
    }
  if (std::ranges::none_of(slow, [](const auto& one) { return one.second.factor > 1; })) return;
  keep_unmeasured(profile, joined);
  for (auto& [way, one] : slow)
    if (one.factor > 1) put(profile, slower(std::move(one.link), one.factor));
}

/// The same of what a transport makes of GPUs, as links of their own.
void slow_down(Profile& profile, Transport transport, std::span<const SlowPair> pairs) {
  const Joins joined = [&](Rank a, Rank b) { return joins(profile, transport, {a, b}); };
  Profile between_gpus = over(profile, transport);
  slow_down(between_gpus, pairs, joined);
  std::erase_if(profile.device_links, [&](const DeviceLink& known) { return known.transport == transport && known.refusal.empty(); });
  for (auto& link : between_gpus.links) profile.device_links.push_back({transport, std::move(link), ""});
}

}  // namespace

Profile with_slower_links(Profile profile, std::span<const SlowPair> pairs) {
  if (!profile.device_links.empty())
    for (const Transport transport : device_transports) slow_down(profile, transport, pairs);
  slow_down(profile, pairs, [](Rank, Rank) { return true; });
  return profile;
}

}  // namespace flotilla::cluster
