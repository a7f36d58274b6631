#include "flotilla/simulate/moving_time.hpp"

#include <algorithm>
#include <map>

#include "flotilla/program/migration.hpp"

namespace flotilla::simulate {

Seconds moving_time(const cluster::Profile& profile, const plan::Plan& from, const plan::Plan& to) {
  std::map<Rank, double> out, in;
  std::map<std::pair<const cluster::Uplink*, bool>, double> passing;  // out of its zone, or in
  const auto pass_uplinks = [&](const program::StateTransfer& transfer) {
    const auto &here = profile.devices.at(transfer.from.index()).zone, &there = profile.devices.at(transfer.to.index()).zone;
    if (here == there) return;
    for (const bool leaves : {true, false})
      if (const auto* uplink = cluster::uplink_of(profile, leaves ? here : there))
        passing[{uplink, leaves}] += (transfer.size() / uplink->bandwidth).value;
  };
  for (const auto& transfer : program::migrate(from, to, program::placement_of(profile.devices)).transfers) {
    if (transfer.stays()) continue;
    const auto& link = cluster::link_between(profile, transfer.from, transfer.to);
    const double seconds = cluster::transfer_time(link, transfer.size()).value;
    out[transfer.from] += seconds;
    in[transfer.to] += seconds;
    pass_uplinks(transfer);
  }
  double most = 0;
  for (const auto& [uplink, seconds] : passing) most = std::max(most, seconds);
  for (const auto* side : {&out, &in})
    for (const auto& [rank, seconds] : *side) most = std::max(most, seconds);
  return {most};
}

}  // namespace flotilla::simulate
