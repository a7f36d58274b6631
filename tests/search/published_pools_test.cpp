// The planner under the Sailor artifact's formulas against what published planners answered for that artifact's pools.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>

#include "flotilla/base/text.hpp"
#include "flotilla/files/sailor.hpp"
#include "flotilla/sailor/artifact.hpp"
#include "flotilla/sailor/formulas.hpp"
#include "flotilla/search/planner.hpp"
#include "support/published_data.hpp"

namespace flotilla::search::published_pools_test {
namespace {

constexpr int per_node = 4;  // of A100-40 and V100-16 in the artifact's clusters

const files::Library& library() {
  static const files::Library all = files::read_sailor_profiles(tests::published_data("sailor")).library;
  return all;
}

struct Case {
  PlanRequest request;
  double best_listed = 1e300;
  std::string best_planner;
};

/// A pool that names no zone is in the one that the plans name.
PoolEntry entry_of(const std::string& key, int count) {
  const auto cut = key.find('_');
  return {key.substr(0, cut), cut == std::string::npos ? "us-central1-a" : key.substr(cut + 1), count, per_node};
}

PlanRequest request_of(const files::Json& run) {
  PlanRequest r;
  r.model = *std::ranges::find(library().models, run.get_string("model"), &model::Config::name);
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

std::string pool_name(const PlanRequest& r) {
  std::string name;
  for (const auto& e : r.pool) name += text(name.empty() ? "" : "+", e.count, e.device_type[0], e.zone.substr(e.zone.size() - 2));
  return name;
}

/// By scenario and pool. Known defect of the file: one plan takes more devices of a zone than there are; it is not counted.
std::map<std::string, Case> cases() {
  std::map<std::string, Case> all;
  for (const auto& run : files::Json::read(tests::published_data("sailor/published_plans.json")).at("runs").items()) {
    const PlanRequest request = request_of(run);
    Case& c = all.try_emplace(run.get_string("scenario") + " " + pool_name(request), Case{request, 1e300, ""}).first->second;
    const double value = run.get_double(request.objective.goal == Goal::cost ? "cost_per_iteration_usd_by_the_artifacts_formula"
                                                                             : "iteration_seconds_by_the_artifacts_formula");
    if (value < c.best_listed) c.best_listed = value, c.best_planner = run.get_string("planner");
  }
  return all;
}

/// Counted afresh from the plan.
void expect_feasible(const PlanRequest& r, const PlanAnswer& a) {
  plan::require_valid(a.best->plan, "plan");
  std::map<std::pair<std::string, std::string>, int> used;
  for (const auto& stage : a.best->plan.stages)
    for (const auto& replica : stage.replicas) used[{replica.device_type, replica.zone}] += replica.tensor_parallel;
  for (const auto& [place, count] : used) {
    int there = 0;
    for (const auto& e : r.pool) there += e.device_type == place.first && e.zone == place.second ? e.count : 0;
    EXPECT_LE(count, there) << place.first << " " << place.second;
  }
  const sailor::SailorArtifact forecaster{library().profile};
  const auto forecast = forecaster.forecast(a.best->plan);
  EXPECT_NEAR(forecast.iteration.value, a.best->iteration.value, 1e-9);
  EXPECT_TRUE(sailor::sailor_fits(forecaster.tables(r.model), forecaster.plan_of(a.best->plan)));
  const auto& limits = r.objective.limits;
  if (limits.iterations_per_second) {
    EXPECT_GE(1 / forecast.iteration.value, *limits.iterations_per_second);
  }
  if (limits.usd_per_iteration) {
    EXPECT_LE(forecast.expense.usd().value(), *limits.usd_per_iteration);
  }
}

TEST(PublishedPools, AgainstTheBestListed) {
  FLOTILLA_SKIP_WITHOUT_DATA("sailor/published_plans.json");
  std::printf("%-48s %-10s %10s %10s %7s %7s %9s %9s  %s\n", "pool", "goal", "listed", "ours", "ratio", "gap", "CPU ms", "pruned",
              "planner");
  for (const auto& [name, c] : cases()) {
    const std::clock_t start = std::clock();
    const auto a = plan(c.request, sailor::SailorArtifact{library().profile});
    const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_TRUE(a.best) << name << ": " << a.no_plan_reason;
    if (!a.best) continue;
    const bool cost = c.request.objective.goal == Goal::cost;
    const double ours = a.best->value;
    std::printf("%-48s %-10s %10.4f %10.4f %7.4f %6.2f%% %9.1f %9lld  %.12s | %s | %s%s\n", name.c_str(), cost ? "cost" : "throughput",
                c.best_listed, ours, ours / c.best_listed, 100 * a.bound_gap, ms, static_cast<long long>(a.pruned), c.best_planner.c_str(),
                plan::summary(a.best->plan).substr(0, 150).c_str(), a.binding.c_str(), a.finished ? "" : " (not finished)");
    expect_feasible(c.request, a);
    // Whatever was found, the bound is one: no listed plan is below it.
    EXPECT_GE(c.best_listed * (1 + 2e-4), ours * (1 - a.bound_gap)) << name;
    EXPECT_LE(a.bound_gap, 0.01) << name;
    if (c.request.pool.size() == 1) {
      EXPECT_TRUE(a.finished) << name;
    }
    EXPECT_LE(ours, c.best_listed * (1 + 2e-4)) << name;  // the listed figures are rounded
  }
}

/// One zone each: what published planners take 0.07 s, 4.85 s and 93 to 105 s for, after 10 s of set-up.
TEST(PublishedPools, Sizes) {
  FLOTILLA_SKIP_WITHOUT_DATA("sailor/published_plans.json");
  const auto plan = [](const std::vector<std::pair<const char*, int>>& pool) {
    PlanRequest r;
    r.model = *std::ranges::find(library().models, "OPT-350", &model::Config::name);
    r.length = r.model.positions;
    r.global_batch = 1024;
    for (const auto& [type, count] : pool) r.pool.push_back({type, "us-central1-a", count, per_node});
    const std::clock_t start = std::clock();
    const auto a = search::plan(r, sailor::SailorArtifact{library().profile});
    const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    ASSERT_TRUE(a.best) << a.no_plan_reason;
    EXPECT_TRUE(a.finished);
    expect_feasible(r, a);
    std::printf("%-48s %10.4f s  gap %5.2f%% %9.1f CPU ms  %s\n", pool_name(r).c_str(), a.best->value, 100 * a.bound_gap, ms,
                plan::summary(a.best->plan).substr(0, 150).c_str());
  };
  plan({{"A100-40", 256}});
  plan({{"A100-40", 256}, {"V100-16", 256}});
  plan({{"A100-40", 32}, {"V100-16", 32}, {"GH-96", 32}});
}

}  // namespace
}  // namespace flotilla::search::published_pools_test
