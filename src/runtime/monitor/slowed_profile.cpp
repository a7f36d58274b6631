#include "flotilla/monitor/slowed_profile.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "group_links.hpp"

namespace flotilla::monitor {
namespace {

void add_slower_type(cluster::Profile& profile, const std::string& name, const std::string& as, double factor) {
  const auto* found = cluster::find_type(profile, as);
  if (found == nullptr) return;
  auto type = *found;
  type.name = name;
  for (auto* peak : {&type.peak_fp32, &type.peak_bf16, &type.peak_fp16}) peak->value /= factor;
  type.memory_bandwidth.value /= factor;
  profile.device_types.push_back(type);
  const auto copy_times = [&](auto& times) {
    const auto count = times.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (times[i].device_type != as) continue;
      auto slower = times[i];
      slower.device_type = name;
      slower.time.value *= factor;
      times.push_back(slower);
    }
  };
  copy_times(profile.operation_times);
}

}  // namespace

std::vector<cluster::SlowPair> slow_pairs(const cluster::Profile& profile, std::span<const Slowness> slow,
                                          const std::vector<Rank>& active_ranks) {
  std::vector<cluster::SlowPair> all;
  const auto at = [&](Rank member) { return active_ranks.at(member.index()); };
  const auto host = [&](Rank member) -> const std::string& { return profile.devices.at(at(member).index()).host; };
  for (const auto& s : slow) {
    if (s.peer.valid()) all.push_back({at(s.rank), at(s.peer), s.factor});
    const bool leaves = std::ranges::any_of(s.members, [&](Rank member) { return host(member) != host(s.rank); });
    for (std::size_t i = 0; i < s.members.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if ((host(s.members[i]) != host(s.members[j])) == leaves && goes_over(s.links, s.members[i], s.members[j], host))
          all.push_back({at(s.members[j]), at(s.members[i]), s.factor});
  }
  return all;
}

cluster::Profile slowed(cluster::Profile profile, std::span<const Slowness> slow, const std::vector<Rank>& active_ranks) {
  const auto pairs = slow_pairs(profile, slow, active_ranks);
  profile = cluster::with_slower_links(std::move(profile), pairs);
  for (const auto& s : slow) {
    if (!s.is_device()) continue;
    auto& device = profile.devices.at(active_ranks.at(s.rank.index()).index());
    const std::string name = text(device.type, ", slowed on rank ", device.rank);
    add_slower_type(profile, name, device.type, s.factor);
    device.type = name;
  }
  return profile;
}

}  // namespace flotilla::monitor
