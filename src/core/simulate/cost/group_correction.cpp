#include "group_correction.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "flotilla/program/rank_locations.hpp"

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

GroupCorrection::GroupCorrection(const cluster::Profile& profile, cluster::Transport transport, program::Group::Algorithm algorithm,
                                 Predict predict)
    : profile_{profile}, predict_{std::move(predict)} {
  const bool by_library = algorithm == program::Group::Algorithm::library_all_reduce;
  for (const auto& sum : profile.group_sums) {
    if (sum.transport != transport || sum.by_library != by_library || !sum.refusal.empty()) continue;
    auto members = ranks_of(profile, sum.members);
    if (members.size() == sum.members.size() && cluster::joins(profile, transport, members, by_library))
      known_.push_back({&sum, {program::Group::Kind::data, members, algorithm}, stand_of(members)});
  }
  if (known_.empty()) return;
  const auto placement = program::placement_of(profile.devices);
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

GroupCorrection::Alike GroupCorrection::alike(const std::vector<Rank>& members, std::size_t count) {
  if (known_.empty()) return {};
  const auto [found, fresh] = found_.try_emplace({members, count}, Alike{});
  if (fresh) found->second = find_alike(members, count);
  return found->second;
}

/// Itself, else the one of the nearest size.
GroupCorrection::Alike GroupCorrection::find_alike(const std::vector<Rank>& members, std::size_t count) const {
  const Stand stand = stand_of(members);
  Alike best;
  const auto nearer = [&](std::size_t k, int than) {
    if (than < 0 || known_[k].group.members == members) return true;
    const auto& other = known_[static_cast<std::size_t>(than)];
    return other.group.members != members && distance(known_[k].size(), count) < distance(other.size(), count);
  };
  for (std::size_t k = 0; k < known_.size(); ++k) {
    if (known_[k].stand != stand) continue;
    int& place = known_[k].size() == 2 ? best.pair : best.whole;
    if (nearer(k, place)) place = static_cast<int>(k);
  }
  if (count < 3) best.whole = -1;
  return best;
}

double GroupCorrection::factor(const std::vector<Rank>& members, std::size_t count, Bytes bytes) {
  if (bytes.count <= 0) return 1;
  const auto [pair, whole] = alike(members, count);
  const double of_two = excess(pair, bytes);
  if (whole < 0) return of_two;
  const double share = static_cast<double>(count - 2) / static_cast<double>(known_[static_cast<std::size_t>(whole)].size() - 2);
  return of_two * std::pow(excess(whole, bytes) / of_two, std::min(1.0, share));
}

std::uint64_t GroupCorrection::kind_of(const std::vector<Rank>& members, std::size_t count) {
  const auto [pair, whole] = alike(members, count);
  return static_cast<std::uint64_t>(pair + 1) * (known_.size() + 1) + static_cast<std::uint64_t>(whole + 1);
}

/// Of the measured group itself; 1 within its scatter, and where nothing is known.
double GroupCorrection::excess(int index, Bytes bytes) {
  if (index < 0) return 1;
  Known& known = known_[static_cast<std::size_t>(index)];
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
