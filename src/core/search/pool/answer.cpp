#include "answer.hpp"

#include <algorithm>
#include <cmath>

#include "../explain.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::search::pool {
namespace {

constexpr std::size_t longest_summary = 160;
constexpr double near = 0.99;  // so close to a limit is at it
constexpr const char* space =
    "data-parallel replicas spanning all stages, each with its own device types, zones, tensor degrees (powers of two, over several nodes "
    "only if their links make a block faster), "
    "microbatch size (powers of two up to 16; for the best plans any size up to 16) and batch fraction; stages with replica counts "
    "of their own, "
    "each of any device types, if the runtime routes; layers cut anywhere; recomputation by stage; 1F1B, GPipe "
    "(for the best plans: zero-bubble, interleaved, sequence parallelism, if the runtime supports them)";

std::string percent(double ratio) { return text(std::round(ratio * 1000) / 10, " %"); }

PooledPlan pooled(const Forecasted& from) {
  PooledPlan out;
  out.plan = from.trial.plan;
  out.iteration = from.trial.forecast.iteration;
  out.value = from.value;
  out.usd = from.trial.forecast.expense.usd();
  out.devices = from.trial.devices;
  out.peak_memory = from.trial.forecast.peak_memory();
  return out;
}

Evaluated evaluated(const Trial& trial) {
  Evaluated out;
  out.plan = trial.plan;
  out.forecast = trial.forecast;
  out.devices = trial.devices;
  if (trial.tightest) out.needed = trial.tightest->needed, out.limit = trial.tightest->limit;
  return out;
}

std::string why(const Forecasted& other, const Forecasted& best, const Stock& stock) {
  if (stock.by_throughput()) return why_lost(evaluated(other.trial), evaluated(best.trial));
  const char* worse = stock.request.objective.goal == Goal::cost ? " more expensive" : " more";
  std::string line = text(percent(other.value / best.value - 1), worse);
  const double slower = other.trial.forecast.iteration / best.trial.forecast.iteration - 1;
  if (slower > 0) line += text(", ", percent(slower), " slower");
  if (other.trial.devices != best.trial.devices) line += text(", ", other.trial.devices, " devices instead of ", best.trial.devices);
  return line;
}

/// What keeps the plan from being better.
std::string binding(const Stock& stock, const Forecasted& best) {
  const Limits& limits = stock.request.objective.limits;
  const auto& forecast = best.trial.forecast;
  const auto usd = forecast.expense.usd();
  if (limits.usd_per_iteration && usd && *usd >= near * *limits.usd_per_iteration)
    return text("iteration cost of ", *limits.usd_per_iteration, " USD");
  if (limits.iterations_per_second && forecast.iteration.value * *limits.iterations_per_second >= near)
    return text(*limits.iterations_per_second, " iterations/s at least");
  if (limits.devices && best.trial.devices >= near * *limits.devices) return text("at most ", *limits.devices, " devices");
  std::vector<int> used(stock.types.size(), 0);
  double usd_per_hour = 0;
  for (int s = 0; s < plan::own_stages(best.trial.plan); ++s)
    for (const auto& replica : best.trial.plan.stages[at(s)].replicas) {
      const auto type = std::ranges::find(stock.types, replica.device_type, &Type::name);
      used[at(type - stock.types.begin())] += replica.tensor_parallel;
      usd_per_hour += type->usd * replica.tensor_parallel * 3600;
    }
  if (limits.usd_per_hour && usd_per_hour >= near * *limits.usd_per_hour) return text("hourly cost of ", *limits.usd_per_hour, " USD");
  std::string exhausted;
  for (std::size_t t = 0; t < used.size(); ++t)
    if (used[t] >= near * stock.types[t].count) exhausted += (exhausted.empty() ? "" : ", ") + stock.types[t].name;
  if (!exhausted.empty()) return "devices of " + exhausted;
  return static_cast<int>(best.trial.plan.stages.front().replicas.size()) >= stock.request.global_batch
             ? text("the batch of ", stock.request.global_batch, " sequences")
             : "";
}

std::string type_of(const Trial& trial, Rank rank) {
  for (const auto& kind : trial.forecast.kinds)
    if (std::ranges::binary_search(kind.ranks, rank)) return kind.device_type;
  return "";
}

/// Which limit the nearest plan breaks, and by how much.
std::string limits_in_words(const Stock& stock, const Trial& trial) {
  const Limits& limits = stock.request.objective.limits;
  const double seconds = trial.forecast.iteration.value, usd = trial.forecast.expense.usd().value_or(0);
  std::string line;
  const auto add = [&](bool broken, const auto&... words) {
    if (broken) line += text(line.empty() ? "" : ", ", words...);
  };
  add(limits.iterations_per_second && seconds * *limits.iterations_per_second > 1, "makes ", 1 / seconds, " iterations/s where ",
      limits.iterations_per_second.value_or(0), " are asked for");
  add(limits.usd_per_iteration && usd > *limits.usd_per_iteration, "costs ", usd, " USD an iteration where ",
      limits.usd_per_iteration.value_or(0), " are allowed");
  const double hourly = trial.forecast.expense.device_usd.value_or(0) / seconds * 3600;
  add(limits.usd_per_hour && hourly > *limits.usd_per_hour, "costs ", hourly, " USD an hour where ", limits.usd_per_hour.value_or(0),
      " are allowed");
  add(limits.devices && trial.devices > *limits.devices, "takes ", trial.devices, " devices where ", limits.devices.value_or(0),
      limits.devices.value_or(0) == 1 ? " is allowed" : " are allowed");
  return line;
}

std::string why_none(const Stock& stock, const Refine& refine, bool stopped, Bench& bench, const LargerPool& larger_pool) {
  if (refine.nearest_to_limits()) {
    const Trial& nearest = refine.nearest_to_limits()->first;
    return text("plans fit the memory, and none found keeps the limits; nearest: ", plan::summary(nearest.plan).substr(0, longest_summary),
                " ", limits_in_words(stock, nearest), "; loosen the limit or widen the pool");
  }
  if (!refine.nearest_miss())
    return stopped ? "stopped before any plan was found"
           : bench.first_refusal().empty()
               ? "no plan of the space is as it was asked for: its stages have too few layers, or restrictions forbid it"
               : text("no plan of the space can be forecast for the runtime '", bench.runtime().name, "': ", bench.first_refusal());
  const Trial& miss = refine.nearest_miss()->trial;
  const auto& short_of = *miss.tightest;
  std::string line =
      text("no plan fits the memory of ", stock.devices, " devices; nearest: ", plan::summary(miss.plan).substr(0, longest_summary),
           ": stage ", short_of.stage, " needs ", short_of.needed, " of ", short_of.limit, " on ",
           short_of.device_type.empty() ? type_of(miss, short_of.rank) : short_of.device_type, " (",
           simulate::contributors_in_words(short_of.memory), ")");
  const auto attempt = [&](const plan::Plan& changed) -> std::optional<simulate::Trial> {
    const auto trial = bench.forecast(unbound(changed));
    if (!trial) return std::nullopt;
    return simulate::Trial{trial->forecast.iteration, trial->tightest ? trial->tightest->limit - trial->tightest->needed : Bytes{}};
  };
  const auto remedy = simulate::find_remedy(miss.plan, {short_of.stage}, miss.forecast.iteration, attempt);
  if (remedy)
    line += text("; ", remedy->change, " would fit", remedy->more_devices > 0 ? text(", on ", remedy->more_devices, " more devices") : "");
  else if (const auto times = stopped ? std::nullopt : larger_pool())
    line += text("; a pool ", *times, " times as large would hold the model");
  return line;
}

}  // namespace

plan::Plan unbound(plan::Plan plan) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.devices.clear();
  return plan;
}

std::size_t shortlist_length(int devices) { return devices <= 40 ? 48 : devices <= 1000 ? 24 : devices <= 10'000 ? 12 : 3; }

PoolAnswer answer_of(const Stock& stock, const Refine& refine, const Effort& effort, double floor, Bench& bench,
                     const LargerPool& larger_pool) {
  PoolAnswer answer;
  answer.space = space;
  answer.considered = effort.forecasts;
  answer.pruned = std::max<std::int64_t>(0, effort.estimates - effort.forecasts);
  if (refine.found().empty()) {
    answer.no_plan_reason = why_none(stock, refine, effort.stopped, bench, larger_pool);
    return answer;
  }
  const Forecasted& best = refine.found().front();
  answer.best = pooled(best);
  answer.binding = binding(stock, best);
  answer.bound_gap = std::clamp(1 - floor / best.value, 0.0, 1.0);
  answer.finished = answer.bound_gap <= stock.request.tolerance;
  const auto tell = [&](const Forecasted& other) {
    const auto same = [&](const PooledPlan& known) { return known.plan == other.trial.plan; };
    if (same(*answer.best) || std::ranges::any_of(answer.alternatives, same)) return;
    answer.alternatives.push_back(pooled(other));
    answer.alternatives.back().reason = why(other, best, stock);
  };
  for (std::size_t i = 1; i < refine.found().size() && static_cast<int>(i) <= stock.request.alternatives; ++i) tell(refine.found()[i]);
  for (const Forecasted& one : refine.kept()) tell(one);
  std::ranges::stable_sort(answer.alternatives, {}, &PooledPlan::value);
  return answer;
}

}  // namespace flotilla::search::pool
