// Planning again after the pool has changed: where the search starts, and plans that move little.
#include <gtest/gtest.h>

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/search/planner.hpp"
#include "moving/moved_bytes.hpp"

namespace flotilla::search::replan_test {
namespace {

const cluster::Profile& library() {
  static const cluster::Profile all = cluster::complete_from_catalogue({}, files::built_in_catalogue(), {"A100-40", "V100-16", "H100-80"});
  return all;
}

PlanRequest request(Pool pool, const std::string& model = "opt-350m") {
  PlanRequest r;
  r.model = model::built_in(model);
  r.length = 512;
  r.global_batch = 256;
  r.pool = std::move(pool);
  return r;
}

PlanAnswer plan(const PlanRequest& r) { return plan(r, simulate::ProgramForecaster{library(), program::runtime_named("flotilla"), {}}); }

/// As if every plan but the best had another value: what the answer holds, best first.
std::vector<RankedPlan> all_of(const PlanAnswer& answer) {
  std::vector<RankedPlan> all{*answer.best};
  all.insert(all.end(), answer.alternatives.begin(), answer.alternatives.end());
  return all;
}

TEST(Replan, NothingHasChangedNothingMoves) {
  auto r = request({{"A100-40", "a", 8, 4}, {"V100-16", "a", 16, 4}});
  const auto before = plan(r);
  ASSERT_TRUE(before.best);
  r.previous = before.best->plan;
  const auto again = plan(r);
  ASSERT_TRUE(again.best);
  EXPECT_LE(again.best->value, before.best->value);
  if (again.best->plan == before.best->plan) {
    EXPECT_EQ(again.best->moved.count, 0);
  }
  EXPECT_EQ(before.best->moved.count, 0) << "no previous plan: nothing is said about it";
}

TEST(Replan, TakesWhatMovesLeastAmongTheNear) {
  auto r = request({{"A100-40", "a", 16, 4}, {"V100-16", "a", 32, 4}});
  const auto before = plan(r);
  ASSERT_TRUE(before.best);
  r.previous = before.best->plan;
  r.pool[0].count = 12;
  const auto best = plan(r);
  ASSERT_TRUE(best.best);
  for (const double share : {0.0, 0.02, 0.1, 0.5}) {
    r.near_best = share;
    const auto near = plan(r);
    ASSERT_TRUE(near.best);
    EXPECT_LE(near.best->value, best.best->value * (1 + share) * (1 + 1e-12));
    for (const auto& one : all_of(near)) {
      EXPECT_EQ(one.moved, moved_bytes(*r.previous, one.plan));
      if (one.value <= best.best->value * (1 + share)) {
        EXPECT_GE(one.moved, near.best->moved);
      }
    }
    for (const auto& lost : near.alternatives) EXPECT_FALSE(lost.reason.empty());
    EXPECT_TRUE(near.best->reason.empty());
  }
}

TEST(Replan, NeverWorseForKnowingWhatRan) {
  for (const int count : {4, 10, 20}) {
    auto r = request({{"A100-40", "a", count, 4}, {"A100-40", "b", 8, 4}, {"H100-80", "b", 4, 4}});
    const auto fresh = plan(r);
    r.previous = plan(request({{"A100-40", "a", 16, 4}, {"H100-80", "b", 8, 4}})).best->plan;
    const auto warm = plan(r);
    ASSERT_TRUE(fresh.best && warm.best);
    EXPECT_LE(warm.best->value, fresh.best->value * 1.0000001) << count;
  }
}

TEST(Replan, WhatRanMayHaveBeenForAnotherPool) {
  auto r = request({{"V100-16", "b", 8, 4}});
  r.previous = plan(request({{"A100-40", "a", 16, 4}})).best->plan;  // none of its devices is left
  const auto answer = plan(r);
  ASSERT_TRUE(answer.best);
  EXPECT_EQ(answer.best->moved, training_state(answer.best->plan));
}

TEST(Replan, OtherModelsAreRefused) {
  auto r = request({{"A100-40", "a", 8, 4}});
  r.previous = plan(request({{"A100-40", "a", 8, 4}}, "opt-125m")).best->plan;
  EXPECT_THROW(plan(r), Error);
}

}  // namespace
}  // namespace flotilla::search::replan_test
