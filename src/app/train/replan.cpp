#include "app/train/replan.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/common/binding.hpp"
#include "app/train/training_setup.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/cluster/slower_links.hpp"
#include "flotilla/monitor/group_links.hpp"
#include "flotilla/program/migration.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/session/change_worth.hpp"
#include "flotilla/session/host_permutation.hpp"
#include "flotilla/simulate/forecaster.hpp"

namespace flotilla::app {
namespace {

constexpr int most_detours = 64;  // ways round slow links that are forecast

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

std::string name_of(const session::RunContext& place, const session::ActivePlan& work, const monitor::Slowness& s) {
  const auto host = [&](Rank member) { return place.world.host(work.active_ranks[member.index()]); };
  if (s.is_device()) return place.world.name(work.active_ranks[s.rank.index()]);
  if (s.peer.valid()) return text("the link between ", host(s.rank), " and ", host(s.peer));
  std::string links;
  for (const auto& link : s.links)
    links += text(links.empty() ? "" : ", ", "the link ",
                  link.other.valid() ? text("between ", host(link.end), " and ", host(link.other)) : text("of ", host(link.end)));
  if (!links.empty()) return links;
  std::vector<Rank> members;
  for (const Rank member : s.members) members.push_back(work.active_ranks[member.index()]);
  return "the network between " + place.world.names(members);
}

std::string names(const session::RunContext& place, const session::ActivePlan& work, std::span<const monitor::Slowness> slow) {
  std::string all;
  for (const auto& s : slow)
    all += (all.empty() ? "" : ", ") + text(name_of(place, work, s), " is ", std::round(s.factor * 10) / 10, " times slower");
  return all.empty() ? "all devices and links are back to normal speed" : all;
}

std::vector<cluster::SlowPair> slow_pairs(const cluster::Profile& profile, std::span<const monitor::Slowness> slow,
                                          const std::vector<Rank>& active_ranks) {
  std::vector<cluster::SlowPair> all;
  const auto at = [&](Rank member) { return active_ranks.at(member.index()); };
  const auto host = [&](Rank member) -> const std::string& { return profile.devices.at(at(member).index()).host; };
  for (const auto& s : slow) {
    if (s.peer.valid()) all.push_back({at(s.rank), at(s.peer), s.factor});
    const bool leaves = std::ranges::any_of(s.members, [&](Rank member) { return host(member) != host(s.rank); });
    for (std::size_t i = 0; i < s.members.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if ((host(s.members[i]) != host(s.members[j])) == leaves && monitor::goes_over(s.links, s.members[i], s.members[j], host))
          all.push_back({at(s.members[j]), at(s.members[i]), s.factor});
  }
  return all;
}

struct Candidate {
  plan::Plan plan;
  Seconds iteration;
};

/// The answer, or what goes round a slow link and is faster.
Candidate best_of(const search::PlanAnswer& answer, const plan::Plan& active, const cluster::Profile& today,
                  const simulate::ProgramForecaster& forecaster, std::span<const cluster::SlowPair> slow) {
  Candidate best{answer.best->plan, answer.best->iteration};
  std::vector<plan::Plan> plans{answer.best->plan, active};
  for (const auto& other : answer.alternatives) plans.push_back(other.plan);
  int left = most_detours;
  for (const auto& plan : plans)
    for (const auto& host_permutation : session::host_permutations(plan, today, slow)) {
      if (left-- == 0) return best;
      const Seconds iteration = forecaster.forecast(host_permutation).iteration;
      if (iteration < best.iteration) best = {host_permutation, iteration};
    }
  return best;
}

}  // namespace

cluster::Profile slowed(cluster::Profile profile, std::span<const monitor::Slowness> slow, const std::vector<Rank>& active_ranks) {
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

std::optional<session::NextPlan> plan_again(const session::RunContext& place, const Job& job, const session::ActivePlan& work,
                                            std::span<const monitor::Slowness> slow, std::int64_t steps_left, const std::stop_token& stop) {
  try {
    const auto& profile = work.chosen.profile;
    const int ranks = place.world.size();
    const auto today = slowed(profile, slow, work.active_ranks);
    const simulate::ProgramForecaster forecaster{today, place.runtime, place.runtime_constant};
    auto request = search_request(job);
    const auto active = on_devices_of(work.chosen.plan, today, ranks);
    request.previous = active;
    request.should_stop = [&] { return stop.stop_requested(); };
    const auto answer = search::plan(request, forecaster);
    if (!answer.best || stop.stop_requested()) return std::nullopt;
    const auto best = best_of(answer, active, today, forecaster, slow_pairs(profile, slow, work.active_ranks));
    const auto next = on_devices_of(best.plan, profile, ranks);
    if (next == work.chosen.plan) return std::nullopt;
    const session::ChangeOffer offer{forecaster.forecast(active).iteration, best.iteration, moving_time(today, work.chosen.plan, next),
                                     steps_left};
    if (!session::worth_changing(offer)) return std::nullopt;
    return session::NextPlan{
        next, text(names(place, work, slow), ": ", offer.changed, " an iteration instead of ", offer.stays, " forecast"), ""};
  } catch (const Error& error) {
    log::warning("re-planning: ", error.what(), "; the plan is kept");
    return std::nullopt;
  }
}

}  // namespace flotilla::app
