#pragma once
// What holds of every answer of the planner under closed formulas.
#include <gtest/gtest.h>

#include <map>

#include "flotilla/sailor/artifact.hpp"
#include "rules_instances.hpp"

namespace flotilla::search {

inline double value_of(const PlanAnswer& a) { return a.best ? a.best->value : std::numeric_limits<double>::infinity(); }

/// No more devices of a type in a zone than there are.
inline void expect_there(const Instance& i, const plan::Plan& plan, int seed) {
  std::map<std::pair<std::string, std::string>, int> left;
  for (const auto& entry : i.request.pool) left[{entry.device_type, entry.zone}] += entry.count;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) left[{replica.device_type, replica.zone}] -= replica.tensor_parallel;
  for (const auto& [place, count] : left) EXPECT_GE(count, 0) << seed << " " << place.first << " " << place.second;
}

/// Equal to enumeration within 0.1 %, feasible exactly when it is; the bound is one.
inline void expect_equal(const Instance& i, int seed) {
  const double best = Enumeration{i}.best;
  const auto a = plan(i.request, sailor::SailorArtifact{i.library});
  ASSERT_EQ(a.best.has_value(), std::isfinite(best)) << seed << " " << a.no_plan_reason << " " << best;
  if (!a.best) {
    EXPECT_FALSE(a.no_plan_reason.empty()) << seed;
    return;
  }
  plan::require_valid(a.best->plan, "plan");
  expect_there(i, a.best->plan, seed);
  EXPECT_TRUE(a.finished) << seed;
  EXPECT_NEAR(value_of(a), best, 1e-3 * best) << seed << " " << plan::summary(a.best->plan);
  EXPECT_GE(best, value_of(a) * (1 - a.bound_gap) * (1 - 1e-9)) << seed;
}

/// Where zones are put together, the answer need not be exact; but its bound is one, and it is near.
inline void expect_near(const Instance& i, int seed, double near) {
  const double best = Enumeration{i}.best;
  const auto a = plan(i.request, sailor::SailorArtifact{i.library});
  ASSERT_EQ(a.best.has_value(), std::isfinite(best)) << seed << " " << a.no_plan_reason << " " << best;
  if (!a.best) return;
  expect_there(i, a.best->plan, seed);
  EXPECT_LE(value_of(a), near * best) << seed << " " << plan::summary(a.best->plan);
  EXPECT_GE(best, value_of(a) * (1 - a.bound_gap) * (1 - 1e-9)) << seed;
  if (a.finished) {
    EXPECT_NEAR(value_of(a), best, 1e-3 * best) << seed;
  }
}

/// More devices, another entry, more memory, or looser limits.
inline void enlarge(Instance& i, Dice& dice, int way) {
  auto& pool = i.request.pool;
  auto& limits = i.request.objective.limits;
  if (way == 1 && pool.size() < 4) return pool.push_back({pool[0].device_type, pool[0].zone == "z0" ? "z1" : "z0", 1, 2});
  if (way == 2)
    for (auto& type : i.library.device_types) type.memory = {type.memory.count + 500'000'000};
  if (way == 3 && limits != Limits{}) {
    if (limits.iterations_per_second) *limits.iterations_per_second *= dice.real(0.5, 0.9);
    if (limits.usd_per_iteration) *limits.usd_per_iteration *= dice.real(1.1, 2);
    if (limits.devices) *limits.devices += 1;
    return;
  }
  pool[static_cast<std::size_t>(dice.pick(0, static_cast<int>(pool.size()) - 1))].count += 1;
}

/// The same twice, and never worse for more.
inline void expect_monotone(int seed) {
  Instance i = random_instance(5000 + seed, seed % 2 == 1);
  if (i.request.pool.empty()) return;
  const auto before = plan(i.request, sailor::SailorArtifact{i.library}), again = plan(i.request, sailor::SailorArtifact{i.library});
  ASSERT_EQ(before.best.has_value(), again.best.has_value());
  if (before.best) {
    EXPECT_EQ(before.best->plan, again.best->plan);
  }
  Dice dice{seed};
  enlarge(i, dice, seed % 4);
  const auto larger = plan(i.request, sailor::SailorArtifact{i.library});
  if (larger.finished) {
    EXPECT_LE(value_of(larger), value_of(before) * (1 + 1e-9)) << seed;
  }
}

}  // namespace flotilla::search
