#include "group_correction.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "flotilla/program/placement.hpp"

namespace flotilla::simulate {
namespace {

constexpr double least_difference = 0.05;  // less is what fits and samples differ by

/// Ranks of those places; fewer where the profile has no longer all of them.
std::vector<Rank> ranks_of(const cluster::Profile& profile, const std::vector<cluster::DevicePlace>& places) {
  std::vector<Rank> ranks;
  for (const auto& device : profile.devices)
    if (std::ranges::find(places, cluster::place_of(device)) != places.end()) ranks.push_back(device.rank);
  return ranks;
}

std::size_t distance(std::size_t a, std::size_t b) { return a > b ? a - b : b - a; }

}  // namespace

GroupCorrection::GroupCorrection(const cluster::Profile& profile, cluster::Transport transport, Predict predict)
    : profile_{profile}, predict_{std::move(predict)} {
  if (profile.group_sums.empty()) return;
  const auto placement = program::placement_of(profile.devices);
  for (const auto& sum : profile.group_sums) {
    if (sum.transport != transport || !sum.refusal.empty()) continue;
    auto members = ranks_of(profile, sum.members);
    if (members.size() == sum.members.size() && cluster::joins(profile, transport, members))
      known_.push_back({&sum, {program::Group::Kind::data, members}, stand_of(members)});
  }
  for (auto& known : known_) known.group.subgroups = program::subgroups_of({known.group.members}, placement);
}

GroupCorrection::Stand GroupCorrection::stand_of(const std::vector<Rank>& members) const {
  std::map<std::string_view, int> hosts;
  int most = 0;
  for (const auto& device : profile_.devices)
    if (std::ranges::find(members, device.rank) != members.end()) most = std::max(most, ++hosts[device.host]);
  if (hosts.size() < 2) return Stand::inside;
  return most == 1 ? Stand::one_each : Stand::several;
}

int GroupCorrection::index_of(const std::vector<Rank>& members, std::size_t count) {
  const auto [found, fresh] = found_.try_emplace({members, count}, -1);
  if (!fresh || count < 3) return found->second;
  const Stand stand = stand_of(members);
  for (std::size_t k = 0; k < known_.size(); ++k) {
    if (known_[k].stand != stand) continue;
    const auto away = [&](std::size_t other) { return distance(known_[other].group.members.size(), count); };
    const bool the_same = known_[k].group.members == members;
    if (found->second < 0 || the_same || away(k) < away(static_cast<std::size_t>(found->second))) found->second = static_cast<int>(k);
    if (the_same) break;
  }
  return found->second;
}

double GroupCorrection::factor(const std::vector<Rank>& members, std::size_t count, Bytes bytes) {
  const int index = known_.empty() ? -1 : index_of(members, count);
  if (index < 0 || bytes.count <= 0) return 1;
  Known& known = known_[static_cast<std::size_t>(index)];
  const double share = static_cast<double>(count - 2) / static_cast<double>(known.group.members.size() - 2);
  return std::pow(excess(known, bytes), std::min(1.0, share));
}

/// Of the measured group itself; 1 within its scatter.
double GroupCorrection::excess(Known& known, Bytes bytes) {
  const auto [found, fresh] = known.by_bytes.try_emplace(bytes.count, 1);
  if (!fresh) return found->second;
  cluster::Link measured;
  measured.pieces = known.sum->pieces;
  const Seconds predicted = predict_(known.group, bytes);
  if (!(predicted.value > 0)) return 1;
  const double ratio = cluster::transfer_time(measured, bytes) / predicted;
  if (std::abs(ratio - 1) > std::max(least_difference, known.sum->relative_scatter)) found->second = ratio;
  return found->second;
}

}  // namespace flotilla::simulate
