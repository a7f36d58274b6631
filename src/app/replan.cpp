#include "app/replan.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/binding.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/program/migration.hpp"
#include "flotilla/search/search.hpp"
#include "flotilla/simulate/forecaster.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds longest_search{3};      // all ranks wait for it
constexpr double least_gain = 0.05;       // of an iteration
constexpr double worth = 2;               // times what the change costs
constexpr double iterations_to_form = 2;  // a change takes these beside the moving: groups are formed and proved

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

/// Types are what the devices are; how fast they are now is the forecast's business.
plan::Plan on_devices_of(plan::Plan plan, const cluster::Profile& profile, int ranks) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.device_type.clear();
  return bound(std::move(plan), profile, ranks, "the plan");
}

std::string names(const Workplace& place, const PlanAtWork& work, std::span<const Slowness> slow) {
  std::string all;
  for (const auto& s : slow)
    if (!s.peer.valid())
      all += (all.empty() ? "" : ", ") +
             text(place.world.name(work.crew_ranks[s.rank.index()]), " is ", std::round(s.factor * 10) / 10, " times slower");
  return all.empty() ? "all devices are as fast as they were" : all;
}

}  // namespace

cluster::Profile slowed(cluster::Profile profile, std::span<const Slowness> slow, const std::vector<Rank>& crew_ranks) {
  for (const auto& s : slow) {
    if (s.peer.valid()) continue;
    auto& device = profile.devices.at(crew_ranks.at(s.rank.index()).index());
    const std::string name = text(device.type, ", slowed on rank ", device.rank);
    add_slower_type(profile, name, device.type, s.factor);
    device.type = name;
  }
  return profile;
}

Seconds moving_time(const cluster::Profile& profile, const plan::Plan& from, const plan::Plan& to) {
  std::map<Rank, double> out, in;
  std::map<std::pair<const cluster::Uplink*, bool>, double> passing;  // out of its zone, or in
  const auto pass_uplinks = [&](const program::Transfer& transfer) {
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

std::optional<NextPlan> plan_again(const Workplace& place, const PlanAtWork& work, std::span<const Slowness> slow,
                                   std::int64_t steps_left) {
  try {
    const auto& profile = work.chosen.profile;
    const int ranks = place.world.size();
    const auto today = slowed(profile, slow, work.crew_ranks);
    const simulate::ProgramForecaster forecaster{today, place.runtime, place.runtime_constant};
    auto request = search_request(place.job);
    request.should_stop = [end = now() + longest_search] { return now() >= end; };
    const auto answer = search::find_plan(request, today, forecaster);
    if (!answer.plan) return std::nullopt;
    const auto next = on_devices_of(*answer.plan, profile, ranks);
    if (next == work.chosen.plan) return std::nullopt;
    const double stays = forecaster.forecast(on_devices_of(work.chosen.plan, today, ranks)).iteration.value;
    const double gain = stays - answer.forecast.iteration.value;
    const double cost = iterations_to_form * stays + moving_time(profile, work.chosen.plan, next).value;
    if (gain < least_gain * stays || gain * static_cast<double>(steps_left) < worth * cost) return std::nullopt;
    return NextPlan{files::plan_to_json(next),
                    text(names(place, work, slow), ": ", Seconds{answer.forecast.iteration.value}, " an iteration in place of ",
                         Seconds{stays}, " forecast"),
                    ""};
  } catch (const Error& error) {
    log::warning("planning again for slow devices: ", error.what(), "; the plan stays");
    return std::nullopt;
  }
}

}  // namespace flotilla::app
