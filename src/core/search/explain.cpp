#include "explain.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "flotilla/base/text.hpp"
#include "tuning.hpp"

namespace flotilla::search {
namespace {

std::string words(simulate::Activity activity) {
  return activity == simulate::Activity::bubble ? "pipeline-bubble and idle time" : in_words(activity);
}

std::string cuts_in_words(const plan::Plan& plan) {
  std::string cuts = "0";
  for (const auto& stage : plan.stages) cuts += text("-", stage.last_layer);
  return cuts;
}

/// "82.6 ms more pipeline-bubble and idle time, 31.4 ms less backward": what took longer and what less long, the most first. Parts of a
/// device's mean time add up to the iteration, so these do to `difference`; small ones are said together.
std::string changes_in_words(const Evaluated& other, const Evaluated& best, Seconds difference) {
  struct Change {
    Seconds more;
    std::string what;
  };
  std::vector<Change> changes;
  Seconds rest{};
  for (std::size_t a = 0; a < other.forecast.breakdown.seconds.size(); ++a) {
    const Seconds more = other.forecast.breakdown.seconds[a] - best.forecast.breakdown.seconds[a];
    if (std::abs(more.value) >= tuning::told_change * difference.value)
      changes.push_back({more, words(static_cast<simulate::Activity>(a))});
    else
      rest = rest + more;
  }
  std::ranges::stable_sort(changes, std::ranges::greater{}, [](const Change& change) { return std::abs(change.more.value); });
  if (std::abs(rest.value) >= tuning::told_rest * difference.value) changes.push_back({rest, "of the rest"});
  std::string all;
  for (const auto& [more, what] : changes)
    all += text(all.empty() ? "" : ", ", to_string(Seconds{std::abs(more.value)}), more.value > 0 ? " more " : " less ", what);
  return all;
}

std::string why_slower(const Evaluated& other, const Evaluated& best) {
  const Seconds difference = other.forecast.iteration - best.forecast.iteration;
  if (!(difference.value > 0) && other.devices == best.devices) return "equally fast";
  if (!(difference.value > 0)) return text("equally fast with ", other.devices, " devices instead of ", best.devices);
  return text(percent(difference.value / best.forecast.iteration.value), " (", to_string(difference),
              ") slower: ", changes_in_words(other, best, difference), " per device");
}

/// Seconds of an iteration by type of device and activity: they sum to the iteration, as the mean over all devices.
std::map<std::pair<std::string, std::size_t>, double> seconds_by_work(const simulate::Forecast& forecast) {
  double ranks = 0;
  for (const auto& kind : forecast.kinds) ranks += static_cast<double>(kind.ranks.size());
  std::map<std::pair<std::string, std::size_t>, double> seconds;
  for (const auto& kind : forecast.kinds)
    for (std::size_t a = 0; a < kind.breakdown.seconds.size(); ++a)
      seconds[{kind.device_type, a}] += kind.breakdown.seconds[a].value * static_cast<double>(kind.ranks.size()) / ranks;
  return seconds;
}

/// Devices of each type and zone that a plan takes.
std::map<cluster::TypeInZone, int> devices_by_place(const plan::Plan& plan) {
  std::map<cluster::TypeInZone, int> used;
  for (int s = 0; s < plan::own_stages(plan); ++s)
    for (const auto& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      used[{replica.device_type, replica.zone}] += replica.tensor_parallel;
  return used;
}

double usd_per_hour(const std::map<cluster::TypeInZone, int>& used, const cluster::Profile& library) {
  double usd = 0;
  for (const auto& [place, count] : used) usd += cluster::usd_per_hour(library, place.type, place.zone) * count;
  return usd;
}

/// Types of which a plan takes all devices.
std::string exhausted(const std::map<cluster::TypeInZone, int>& used, const Pool& pool) {
  std::map<std::string, int> by_type;
  for (const auto& [place, count] : used) by_type[place.type] += count;
  std::string names;
  for (const auto& [name, count] : by_type) {
    int there = 0;
    for (const auto& entry : pool) there += entry.device_type == name ? entry.count : 0;
    if (count >= tuning::at_limit * there) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace

simulate::Activity grown_most(const Evaluated& other, const Evaluated& best) {
  const auto &theirs = other.forecast.breakdown, &ours = best.forecast.breakdown;
  std::size_t worst = 0;
  const auto more = [&](std::size_t a) { return theirs.seconds[a] - ours.seconds[a]; };
  for (std::size_t a = 1; a < theirs.seconds.size(); ++a)
    if (more(a) > more(worst)) worst = a;
  return static_cast<simulate::Activity>(worst);
}

bool equal_within_error(const Evaluated& one, const Evaluated& other) {
  auto unlike = seconds_by_work(one.forecast);
  for (const auto& [work, seconds] : seconds_by_work(other.forecast)) unlike[work] -= seconds;
  double differs = 0;
  for (const auto& [work, seconds] : unlike) differs += std::abs(seconds);
  const double error = std::max(one.forecast.relative_error, other.forecast.relative_error);
  return std::abs(one.value / other.value - 1) * other.forecast.iteration.value <= error * differs;
}

std::string percent(double ratio) { return text(std::round(ratio * 1000) / 10, " %"); }

std::string why_lost(const Evaluated& other, const Evaluated& best, Goal goal) {
  if (!other.fits())
    return text("does not fit: rank ", other.tightest, " would need ", to_string(other.needed), " of ", to_string(other.limit));
  if (goal == Goal::throughput) return why_slower(other, best);
  std::string line = text(percent(other.value / best.value - 1), goal == Goal::cost ? " more expensive" : " more");
  const double slower = other.forecast.iteration / best.forecast.iteration - 1;
  if (slower > 0) line += text(", ", percent(slower), " slower");
  if (other.devices != best.devices) line += text(", ", other.devices, " devices instead of ", best.devices);
  return line;
}

RankedPlan alternative(const Evaluated& other, const Evaluated& best, Goal goal) {
  RankedPlan told = ranked(other);
  told.reason = why_lost(other, best, goal);
  told.within_error = equal_within_error(other, best);
  return told;
}

std::string binding_of(const PlanRequest& request, const cluster::Profile& library, const RankedPlan& best) {
  const Limits& limits = request.objective.limits;
  const auto used = devices_by_place(best.plan);
  std::string all;
  const auto add = [&](bool binds, const auto&... words) {
    if (binds) all += text(all.empty() ? "" : ", ", words...);
  };
  add(limits.usd_per_iteration && best.usd.value_or(0) >= tuning::at_limit * *limits.usd_per_iteration, "iteration cost of ",
      limits.usd_per_iteration.value_or(0), " USD");
  add(limits.usd_per_hour && usd_per_hour(used, library) >= tuning::at_limit * *limits.usd_per_hour, "hourly cost of ",
      limits.usd_per_hour.value_or(0), " USD");
  add(limits.iterations_per_second && best.iteration.value * *limits.iterations_per_second >= tuning::at_limit,
      limits.iterations_per_second.value_or(0), " iterations/s at least");
  add(limits.devices && best.devices >= tuning::at_limit * *limits.devices, "at most ", limits.devices.value_or(0),
      limits.devices.value_or(0) == 1 ? " device" : " devices");
  const std::string types = exhausted(used, request.pool);
  add(!types.empty(), "devices of ", types);
  add(all.empty() && static_cast<int>(best.plan.stages.front().replicas.size()) >= request.global_batch, "the batch of ",
      request.global_batch, " sequences");
  return all;
}

std::string in_words(std::span<const plan::ScheduleKind> kinds) {
  std::string all;
  for (const plan::ScheduleKind kind : kinds) all += (all.empty() ? "" : ", ") + to_string(kind);
  return all;
}

std::string describe(const plan::Plan& plan) {
  const auto& stage = plan.stages.front();
  const auto& replica = stage.replicas.front();
  std::string line = text("data ", stage.replicas.size(), " x pipeline ", plan::own_stages(plan), " x tensor ", replica.tensor_parallel,
                          ", microbatch ", replica.quanta * plan.quantum, ", ", to_string(plan.schedule), ", ",
                          stage.recompute == plan::Recompute::none ? "no" : to_string(stage.recompute), " recomputation");
  if (plan.chunks > 1) line += text(", ", plan.chunks, " stages a device");
  if (plan.sequence_parallel) line += ", sequence parallel";
  if (plan.shard_optimizer) line += ", sharded optimizer";
  if (plan.stages.size() > 1) line += ", layers " + cuts_in_words(plan);
  return line;
}

}  // namespace flotilla::search
