#include "published_pools.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/text.hpp"
#include "flotilla/files/sailor.hpp"
#include "support/published_data.hpp"

namespace flotilla::benchmarks {
namespace {

using search::Goal;

constexpr int per_node = 4;  // of A100-40 and V100-16 in the artifact's clusters

/// A pool that names no zone is in the one that the plans name.
search::PoolEntry entry_of(const std::string& key, int count) {
  const auto cut = key.find('_');
  return {key.substr(0, cut), cut == std::string::npos ? "us-central1-a" : key.substr(cut + 1), count, per_node};
}

search::PlanRequest request_of(const files::Json& run, const files::Library& library) {
  search::PlanRequest r;
  r.model = *std::ranges::find(library.models, run.get_string("model"), &model::Config::name);
  r.length = run.get_int("sequence_length");
  r.global_batch = run.get_int("global_batch");
  const auto pool = run.at("pool"), objective = run.at("objective");
  for (const auto& key : pool.keys()) r.pool.push_back(entry_of(key, pool.get_int(key)));
  for (const auto& key : objective.keys()) {
    if (key == "minimise") r.objective.goal = Goal::cost;
    if (key == "iterations_per_second_at_least") r.objective.limits.iterations_per_second = objective.get_double(key);
    if (key == "cost_per_iteration_usd_at_most") r.objective.limits.usd_per_iteration = objective.get_double(key);
  }
  return r;
}

/// Entries of one type by number of zones: "5 x 32 A100-40".
std::string name_of(const std::string& scenario, const search::Pool& pool) {
  std::map<std::pair<std::string, int>, int> zones;
  for (const auto& entry : pool) ++zones[{entry.device_type, entry.count}];
  std::string name = scenario;
  for (const auto& [kind, count] : zones)
    name += text(name == scenario ? " " : " + ", count > 1 ? text(count, " x ") : "", kind.second, " ", kind.first);
  return name;
}

bool is_same(const search::PlanRequest& a, const search::PlanRequest& b) {
  return a.pool == b.pool && a.objective == b.objective && a.model == b.model && a.global_batch == b.global_batch;
}

}  // namespace

std::vector<PublishedPool> published_pools(const files::Library& library) {
  std::vector<PublishedPool> all;
  for (const auto& run : files::Json::read(tests::published_data("sailor/published_plans.json")).at("runs").items()) {
    PublishedPool pool{"", request_of(run, library), {}};
    pool.name = name_of(run.get_string("scenario"), pool.request.pool);
    auto known = std::ranges::find_if(
        all, [&](const PublishedPool& other) { return other.name == pool.name && is_same(other.request, pool.request); });
    if (known == all.end()) known = all.insert(all.end(), pool);
    const bool cost = pool.request.objective.goal == Goal::cost;
    ListedPlan listed;
    listed.planner = run.get_string("planner");
    listed.planner = listed.planner.substr(0, listed.planner.find(','));
    listed.plan = files::sailor_plan_from_json(run, pool.request.model, std::nullopt);
    listed.value = run.get_double(cost ? "cost_per_iteration_usd_by_the_artifacts_formula" : "iteration_seconds_by_the_artifacts_formula");
    listed.runnable = lies_within(listed.plan, pool.request.pool);
    known->plans.push_back(std::move(listed));
  }
  return all;
}

bool lies_within(const plan::Plan& plan, const search::Pool& pool) {
  std::map<std::pair<std::string, std::string>, int> left;
  for (const auto& entry : pool) left[{entry.device_type, entry.zone}] += entry.count;
  for (int s = 0; s < plan::own_stages(plan); ++s)
    for (const auto& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      if ((left[{replica.device_type, replica.zone}] -= replica.tensor_parallel) < 0) return false;
  return true;
}

std::optional<double> value_of(const search::Objective& objective, Seconds iteration, std::optional<double> usd) {
  return objective.goal == Goal::cost ? usd : std::optional{iteration.value};
}

bool keeps(const search::Limits& limits, Seconds iteration, std::optional<double> usd) {
  constexpr double rounding = 1e-9;
  const bool fast = !limits.iterations_per_second || 1 / iteration.value >= *limits.iterations_per_second * (1 - rounding);
  return fast && (!limits.usd_per_iteration || (usd && *usd <= *limits.usd_per_iteration * (1 + rounding)));
}

}  // namespace flotilla::benchmarks
