#include "flotilla/session/replan.hpp"

#include <cmath>

#include "better_plan.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"

namespace flotilla::session {
namespace {

std::string name_of(const RunContext& place, const ActivePlan& work, const monitor::Slowness& s) {
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

std::string names(const RunContext& place, const ActivePlan& work, std::span<const monitor::Slowness> slow) {
  std::string all;
  for (const auto& s : slow)
    all += (all.empty() ? "" : ", ") + text(name_of(place, work, s), " is ", std::round(s.factor * 10) / 10, " times slower");
  if (all.empty())
    return work.corrected ? "by what this run measured of its devices and links" : "all devices and links are back to normal speed";
  return all;
}

}  // namespace

std::optional<NextPlan> plan_again(const RunContext& place, const search::PlanRequest& job, const ActivePlan& work,
                                   std::span<const monitor::Slowness> slow, std::int64_t steps_left, const std::stop_token& stop) {
  try {
    auto request = job;
    request.should_stop = [&] { return stop.stop_requested(); };
    auto runtime = place.runtime;
    runtime.library_scratch = least_scratch(place, job.length);
    const auto better = better_plan({work.chosen, work.active_ranks, place.world.size(), slow, steps_left, runtime, place.runtime_constant},
                                    std::move(request));
    if (!better) return std::nullopt;
    return NextPlan{
        better->plan,
        text(names(place, work, slow), ": ", better->offer.changed, " an iteration instead of ", better->offer.stays, " forecast"), ""};
  } catch (const Error& error) {
    log::warning("re-planning: ", error.what(), "; the plan is kept");
    return std::nullopt;
  }
}

}  // namespace flotilla::session
