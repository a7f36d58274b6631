#include "answer.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "../explain.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/plan/recompute_modes.hpp"
#include "flotilla/schedule/schedule.hpp"

namespace flotilla::search::pool {
namespace {

constexpr std::size_t longest_summary = 160;
std::string space() {
  return text(
      "data-parallel replicas spanning all stages, each with its own device types, zones, tensor degrees (powers of two and divisors of a "
      "node, over several nodes only if their links make a block faster), microbatch size (up to 64) and batch fraction; stages "
      "with replica counts of their own, each of any device types, if the runtime routes; layers cut anywhere; recomputation by stage; ",
      in_words(schedule::schedule_kinds()), ", sequence parallelism and sharded optimizer, if the runtime supports them");
}

Evaluated evaluated(const Forecasted& from, const PlanEvaluator& evaluator) {
  Evaluated out;
  out.plan = evaluator.seated(from.evaluation.plan);
  out.forecast = from.evaluation.forecast;
  out.value = from.value;
  out.devices = from.evaluation.devices;
  if (from.evaluation.tightest) out.needed = from.evaluation.tightest->needed, out.limit = from.evaluation.tightest->limit;
  return out;
}

std::string type_of(const Evaluation& evaluation, Rank rank) {
  for (const auto& kind : evaluation.forecast.kinds)
    if (std::ranges::binary_search(kind.ranks, rank)) return kind.device_type;
  return "";
}

Miss miss_of(const Evaluation& evaluation, const PlanEvaluator& evaluator) {
  const auto& short_of = *evaluation.tightest;
  Miss miss;
  miss.plan = evaluator.seated(evaluation.plan);
  miss.stage = short_of.stage;
  if (evaluator.on_ranks()) miss.rank = short_of.rank;
  miss.device_type = short_of.device_type.empty() ? type_of(evaluation, short_of.rank) : short_of.device_type;
  miss.needed = short_of.needed, miss.limit = short_of.limit;
  miss.memory = short_of.memory;
  miss.contributors = simulate::contributors_in_words(short_of.memory);
  return miss;
}

/// Whether no tensor-parallel group is wider than the pool's nodes let it be, however many there are.
bool has_groups_of_the_pool(const plan::Plan& plan, const DevicePool& device_pool) {
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) {
      const auto type = std::ranges::find(device_pool.types, replica.device_type, &PoolType::name);
      if (type != device_pool.types.end() && replica.tensor_parallel > type->widest) return false;
    }
  return true;
}

/// The change that makes the nearest plan fit.
std::string change_that_fits(const Evaluation& miss, const DevicePool& device_pool, bool stopped, PlanEvaluator& evaluator,
                             const LargerPool& larger_pool) {
  const auto attempt = [&](const plan::Plan& changed) -> std::optional<simulate::ChangedPlan> {
    const auto evaluation = has_groups_of_the_pool(changed, device_pool) ? evaluator.forecast_elsewhere(unbound(changed)) : std::nullopt;
    if (!evaluation) return std::nullopt;
    return simulate::ChangedPlan{evaluation->forecast.iteration,
                                 evaluation->tightest ? evaluation->tightest->limit - evaluation->tightest->needed : Bytes{}};
  };
  const auto remedy = simulate::find_remedy(miss.plan, {miss.tightest->stage}, miss.forecast.iteration, attempt);
  if (remedy && remedy->more_devices == 0) return remedy->change + " would fit";
  // Changes that add devices double degrees: a larger pool may need fewer.
  const auto times = stopped ? std::nullopt : larger_pool();
  if (times && (!remedy || (*times - 1) * device_pool.devices <= remedy->more_devices))
    return text("a pool ", *times, " times as large would hold the model");
  return remedy ? text(remedy->change, " would fit, on ", remedy->more_devices, " more devices") : "";
}

/// Degrees that are fixed and that no devices of the pool make up; empty where that is not why.
std::string impossible_degrees(const DevicePool& device_pool) {
  const Constraints& fixed = device_pool.request.constraints;
  const int tensor = fixed.tensor.value_or(1), own = fixed.pipeline.value_or(std::max<int>(1, std::ssize(device_pool.cuts) - 1));
  const auto widest = std::ranges::max(device_pool.types, {}, &PoolType::widest).widest;
  if (tensor > widest)
    return text("tensor-parallel groups of ", tensor, " devices do not fit inside one host: the largest has ", widest,
                "; give a smaller tensor degree");
  if (const int needed = fixed.data.value_or(1) * own * tensor; needed > device_pool.devices)
    return text("the degrees that are fixed take ", needed, " devices, and there are ", device_pool.devices,
                "; give smaller ones or more devices");
  return "";
}

std::string why_none(const DevicePool& device_pool, const Refine& refine, bool stopped, PlanEvaluator& evaluator,
                     const std::optional<Miss>& miss) {
  if (refine.nearest_to_limits()) {
    const Evaluation& nearest = refine.nearest_to_limits()->first;
    return text("plans fit the memory, and none found keeps the limits; nearest: ", plan::summary(nearest.plan).substr(0, longest_summary),
                " ", limits_in_words(device_pool.request.objective.limits, nearest.forecast, nearest.devices),
                "; loosen the limit or widen the pool");
  }
  if (const std::string degrees = impossible_degrees(device_pool); !degrees.empty()) return degrees;
  if (!refine.nearest_miss())
    return stopped ? "stopped before any plan was found"
           : evaluator.first_refusal().empty()
               ? "no plan of the space is as it was asked for: its stages have too few layers, or restrictions forbid it"
               : text("no plan of the space can be forecast for the runtime '", evaluator.runtime().name, "': ", evaluator.first_refusal());
  return text("no plan fits the memory of ", device_pool.devices, device_pool.devices == 1 ? " device" : " devices",
              "; nearest: ", plan::summary(miss->plan).substr(0, longest_summary), ": stage ", miss->stage, " needs ", miss->needed, " of ",
              miss->limit, " on ", miss->device_type, " (", miss->contributors, ")", miss->change.empty() ? "" : "; " + miss->change);
}

/// Devices by type and zone.
std::map<std::pair<std::string, std::string>, int> places_of(const plan::Plan& plan) {
  std::map<std::pair<std::string, std::string>, int> devices;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) devices[{replica.device_type, replica.zone}] += replica.tensor_parallel;
  return devices;
}

/// On the same devices, as deep, and with the same execution options.
bool alike(const plan::Plan& a, const plan::Plan& b) {
  return a.stages.size() == b.stages.size() && a.schedule == b.schedule && a.sequence_parallel == b.sequence_parallel &&
         a.shard_optimizer == b.shard_optimizer && plan::recompute_modes(a) == plan::recompute_modes(b) && places_of(a) == places_of(b);
}

}  // namespace

std::string limits_in_words(const Limits& limits, const simulate::Forecast& forecast, int devices) {
  const double seconds = forecast.iteration.value, usd = forecast.expense.usd().value_or(0);
  std::string line;
  const auto add = [&](bool broken, const auto&... words) {
    if (broken) line += text(line.empty() ? "" : ", ", words...);
  };
  add(limits.iterations_per_second && seconds * *limits.iterations_per_second > 1, "makes ", 1 / seconds, " iterations/s where ",
      limits.iterations_per_second.value_or(0), " are asked for");
  add(limits.usd_per_iteration && usd > *limits.usd_per_iteration, "costs ", usd, " USD an iteration where ",
      limits.usd_per_iteration.value_or(0), " are allowed");
  const double hourly = forecast.expense.device_usd.value_or(0) / seconds * 3600;
  add(limits.usd_per_hour && hourly > *limits.usd_per_hour, "costs ", hourly, " USD an hour where ", limits.usd_per_hour.value_or(0),
      " are allowed");
  add(limits.devices && devices > *limits.devices, "takes ", devices, " devices where ", limits.devices.value_or(0),
      limits.devices.value_or(0) == 1 ? " is allowed" : " are allowed");
  return line;
}

PlanAnswer answer_of(const DevicePool& device_pool, const Refine& refine, const Effort& effort, BoundProof floor, PlanEvaluator& evaluator,
                     const LargerPool& larger_pool) {
  PlanAnswer answer;
  answer.space = space();
  answer.considered = effort.forecasts;
  answer.pruned = std::max<std::int64_t>(0, effort.estimates - effort.forecasts);
  answer.bound = floor.bound;
  if (refine.found().empty()) {
    if (refine.nearest_miss() && !refine.nearest_to_limits()) {
      const Evaluation& nearest = refine.nearest_miss()->evaluation;
      answer.nearest_miss = miss_of(nearest, evaluator);
      answer.nearest_miss->change = change_that_fits(nearest, device_pool, effort.stopped, evaluator, larger_pool);
    }
    answer.no_plan_reason = why_none(device_pool, refine, effort.stopped, evaluator, answer.nearest_miss);
    return answer;
  }
  const Forecasted& best = refine.found().front();
  const Evaluated winner = evaluated(best, evaluator);
  answer.best = ranked(winner);
  answer.binding = binding_of(device_pool.request, device_pool.profile, *answer.best);
  answer.bound = std::min(answer.bound, best.value);  // the links of ranks may be faster than those that the floor takes for all hosts
  answer.bound_gap = std::clamp(1 - answer.bound / best.value, 0.0, 1.0);
  if (device_pool.request.wants_proof && (!floor.potentials.empty() || !floor.cases.empty())) answer.proof = std::move(floor);
  answer.finished = answer.bound_gap <= device_pool.request.tolerance;
  const auto tell = [&](const Forecasted& one) {
    const Evaluated other = evaluated(one, evaluator);
    const auto same = [&](const RankedPlan& known) {  // plans of one shape may differ in what a change to them moves
      return device_pool.request.previous ? known.plan == other.plan : alike(known.plan, other.plan);
    };
    if (same(*answer.best) || std::ranges::any_of(answer.alternatives, same)) return;
    answer.alternatives.push_back(alternative(other, winner, device_pool.request.objective.goal));
  };
  for (std::size_t i = 1; i < refine.found().size() && std::ssize(answer.alternatives) < device_pool.request.alternatives; ++i)
    tell(refine.found()[i]);
  for (const Forecasted& one : refine.kept()) tell(one);
  std::ranges::stable_sort(answer.alternatives, {}, &RankedPlan::value);
  return answer;
}

}  // namespace flotilla::search::pool
