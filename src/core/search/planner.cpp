#include "flotilla/search/planner.hpp"

#include <algorithm>

#include "certainty.hpp"
#include "check_request.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/sailor/artifact.hpp"
#include "flotilla/search/binding.hpp"
#include "pool/search.hpp"
#include "replan.hpp"
#include "rules/rules_planner.hpp"
#include "tuning.hpp"

namespace flotilla::search {
namespace {

cluster::Profile with_memory_limit(cluster::Profile profile, Bytes limit) {
  for (auto& type : profile.device_types) type.memory = type.memory.count > 0 ? std::min(type.memory, limit) : limit;
  return profile;
}

/// The profile's types and links for plans over a pool. Times of operations are those of the runtime's own profile.
program::Runtime for_other_devices(program::Runtime runtime) {
  runtime.sizes.clear();
  return runtime;
}

/// The types and links of some ranks for plans over a pool, whose hosts are invented type by type. Ranks of one host know no links between
/// hosts, those of one zone none between zones: what is invented for them is joined as they are.
cluster::Profile library_of_ranks(const cluster::Profile& profile, const Pool& pool) {
  using cluster::LinkLevel;
  auto library = with_node_sizes(profile, pool);
  library.devices.clear();
  for (const auto& [level, below] : {std::pair{LinkLevel::zone, LinkLevel::node}, std::pair{LinkLevel::wide, LinkLevel::zone}}) {
    if (std::ranges::find(library.links, level, &cluster::Link::level) != library.links.end()) continue;
    const auto links = library.links;
    for (auto link : links)
      if (link.level == below) link.level = level, library.links.push_back(std::move(link));
  }
  return library;
}

/// Over the pool of the ranks' devices, by forecasts on the ranks.
PlanAnswer plan_on_ranks(const PlanRequest& request, const cluster::Profile& profile, const simulate::ProgramForecaster& forecaster) {
  PlanRequest over = request;
  over.process_memory = [constant = forecaster.runtime_constant()](int) { return constant; };
  return pool::plan_over_pool(over, library_of_ranks(profile, request.pool), for_other_devices(forecaster.runtime()), &forecaster);
}

PlanAnswer plan_by_programs(PlanRequest& request, const cluster::Profile& profile, const simulate::ProgramForecaster& forecaster) {
  if (!request.pool.empty()) {
    check(request, profile);
    return pool::plan_over_pool(request, profile, for_other_devices(forecaster.runtime()));
  }
  FLOTILLA_REQUIRE(request.constraints.at_least.empty(), ErrorKind::unavailable, "devices are asked for of a pool, not of bound ranks");
  check_ranks(profile);
  request.pool = pool_of_devices(profile);
  check(request, profile);
  return plan_on_ranks(request, profile, forecaster);
}

/// The artifact's formulas bind nothing: plans by type and zone are bound when they are found.
PlanAnswer plan_by_formulas(PlanRequest& request, const cluster::Profile& profile, const sailor::SailorArtifact& forecaster) {
  const bool on_ranks = request.pool.empty();
  if (on_ranks) check_ranks(profile), request.pool = pool_of_devices(profile);
  check(request, profile);
  auto answer = rules::plan_by_rules(request, profile, forecaster);
  if (!on_ranks) return answer;
  const auto bind = [&](RankedPlan& one) {
    auto plan = on_devices(one.plan, profile);
    if (plan) one.plan = std::move(*plan);
    return plan.has_value();
  };
  std::erase_if(answer.alternatives, [&](RankedPlan& one) { return !bind(one); });
  if (answer.best && !bind(*answer.best)) {
    answer.best.reset();
    answer.no_plan_reason = "the best plan leaves ranks idle between others; give the devices as a pool";
  }
  return answer;
}

PlanAnswer plan_by(PlanRequest request, const cluster::Profile& profile, const simulate::Forecaster& forecaster) {
  if (const auto* programs = dynamic_cast<const simulate::ProgramForecaster*>(&forecaster))
    return plan_by_programs(request, profile, *programs);
  if (const auto* formulas = dynamic_cast<const sailor::SailorArtifact*>(&forecaster)) return plan_by_formulas(request, profile, *formulas);
  throw Error{ErrorKind::unavailable, "no search is known for this forecaster; it forecasts no programs, and its formulas are others"};
}

/// With less memory the search may leave out what it finds with more, so the plans of both count.
PlanAnswer search_with_certainty(const PlanRequest& asked, const cluster::Profile& profile, const simulate::Forecaster& forecaster) {
  const auto* programs = dynamic_cast<const simulate::ProgramForecaster*>(&forecaster);
  FLOTILLA_REQUIRE(programs != nullptr, ErrorKind::unavailable,
                   "closed formulas state no interval of a plan's time, so none is better with certainty; leave the confidence out");
  PlanRequest request = asked;
  request.alternatives = std::max(request.alternatives, tuning::certain_alternatives);
  const auto certain = with_certain_memory(profile, programs->runtime(), request.precision);
  auto answer = plan_by(request, certain, forecaster);
  if (programs->runtime().layers) add_certain_plans(answer, plan_by(request, profile, forecaster), certain);
  prefer_certain(answer, request.objective.confidence, asked.alternatives);
  return answer;
}

PlanAnswer plan_as_asked(const PlanRequest& asked, const simulate::Forecaster& forecaster) {
  PlanRequest request = asked;
  request.constraints = settled(asked.constraints);
  std::optional<cluster::Profile> limited;
  if (request.memory_limit) limited = with_memory_limit(forecaster.profile(), *request.memory_limit);
  const cluster::Profile& profile = limited ? *limited : forecaster.profile();
  auto answer =
      request.objective.confidence > 0 ? search_with_certainty(request, profile, forecaster) : plan_by(request, profile, forecaster);
  prefer_what_moves_least(answer, request);
  return answer;
}

/// Estimates and bounds take a model whose blocks are alike, which a few frozen tensors may end. So plans are searched as if all of it were
/// trained: they fit, and no plan of the space is better at that. Where nothing fits, what is frozen counts, and nothing is proven.
PlanAnswer plan_with_frozen(const PlanRequest& asked, const simulate::Forecaster& forecaster) {
  PlanRequest all = asked;
  all.model = all.model.fully_trained();
  if (all.previous) all.previous->model = all.previous->model.fully_trained();
  auto answer = plan_as_asked(all, forecaster);
  const auto freeze = [&](plan::Plan& plan) {
    plan.model.frozen = asked.model.frozen;
    plan.model.lora = asked.model.lora;
  };
  if (answer.best) {
    freeze(answer.best->plan);
    for (auto& other : answer.alternatives) freeze(other.plan);
    return answer;
  }
  auto smaller = plan_as_asked(asked, forecaster);
  if (!smaller.best) return smaller;
  smaller.bound = 0;
  smaller.bound_gap = 1;
  smaller.finished = false;
  smaller.proof.reset();
  return smaller;
}

}  // namespace

PlanAnswer plan(const PlanRequest& asked, const simulate::Forecaster& forecaster) {
  if (!asked.model.frozen.empty() || asked.model.lora.on()) return plan_with_frozen(asked, forecaster);
  return plan_as_asked(asked, forecaster);
}

}  // namespace flotilla::search
