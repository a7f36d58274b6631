// The planner under closed formulas against plain enumeration on small pools of made-up devices; rules_planner_long_test tries more of
// them.
#include "flotilla/base/error.hpp"
#include "rules_checks.hpp"

namespace flotilla::search::rules_planner_test {
namespace {

class RulesPlanner : public testing::TestWithParam<int> {};

TEST_P(RulesPlanner, EqualsEnumeration) {
  for (int seed = GetParam() * 10; seed < GetParam() * 10 + 10; ++seed) expect_equal(random_instance(seed, seed % 2 == 1, 6), seed);
}
INSTANTIATE_TEST_SUITE_P(Random, RulesPlanner, testing::Range(0, 15));

/// Degrees, cuts and microbatches that somebody has fixed, and one degree in the whole plan.
TEST(RulesPlannerConstraints, EqualEnumeration) {
  for (int seed = 0; seed < 120; ++seed) {
    Instance i = random_instance(7000 + seed, seed % 2 == 1, 6);
    Dice dice{seed};
    fix_something(i, dice);
    expect_equal(i, seed);
  }
}
TEST(RulesPlannerConstraints, EqualEnumerationOfLargerPools) {
  for (int seed = 0; seed < 3; ++seed) {
    Instance i = larger_instance(seed);
    if (seed == 0) i.request.constraints.pipeline = 2;
    if (seed == 1) i.request.constraints.data = 3;
    if (seed == 2) i.request.constraints.cuts = {0, 2, i.request.model.layers()};
    expect_equal(i, seed);
  }
}

TEST(RulesPlannerLarger, EqualsEnumeration) {
  for (int seed = 0; seed < 3; ++seed) expect_equal(larger_instance(seed), seed);
}

/// A zone that no link leads to; a zone without links inside, whose devices stand beside those of another one: plans that need that are
/// bounded, not looked for.
TEST(RulesPlannerParts, AreBounded) {
  for (int seed = 0; seed < 4; ++seed)
    for (const bool isolated : {false, true}) {
      Instance i = zoned_instance(seed);
      std::erase_if(i.library.link_fits, [&](const cluster::LinkFit& fit) {
        const int ends = (fit.from_zone == "z1" ? 1 : 0) + (fit.to_zone == "z1" ? 1 : 0);
        return ends == 2 || (isolated && ends == 1);
      });
      expect_near(i, seed, isolated ? 1.005 : std::numeric_limits<double>::infinity());
    }
}

TEST(RulesPlannerMore, IsNeverWorse) {
  for (int seed = 0; seed < 40; ++seed) expect_monotone(seed);
}

TEST(RulesPlannerRequests, ContradictionsAreNamed) {
  const Instance i = random_instance(1, false);
  const auto refused = [&](auto change) {
    Instance changed = i;
    change(changed.request);
    EXPECT_THROW(plan(changed.request, sailor::SailorArtifact{changed.library}), Error);
  };
  refused([](PlanRequest& r) { r.pool.clear(); });
  refused([](PlanRequest& r) { r.pool[0].count = 0, r.pool.resize(1); });
  refused([](PlanRequest& r) { r.pool[0].device_type = "unheard-of"; });
  refused([](PlanRequest& r) { r.pool[0].count = 2'000'000'000; });
  refused([](PlanRequest& r) { r.model.name = "unheard-of"; });
  refused([](PlanRequest& r) { r.global_batch = 0; });
  refused([](PlanRequest& r) { r.length += 1; });
  refused([](PlanRequest& r) { r.objective.limits.usd_per_iteration = -1; });
  refused([](PlanRequest& r) { r.constraints.microbatch = 3; });  // not measured
  refused([](PlanRequest& r) { r.constraints.recompute = plan::Recompute::full; });
  refused([](PlanRequest& r) { r.constraints.at_least = {{"t0", "z0", 1}}; });
}

TEST(RulesPlannerRequests, SaysWhatIsMissing) {
  Instance i = random_instance(1, false);
  for (auto& type : i.library.device_types) type.memory = {2'500'000'000};
  const auto a = plan(i.request, sailor::SailorArtifact{i.library});
  ASSERT_FALSE(a.best);
  EXPECT_NE(a.no_plan_reason.find("the model fits nowhere; nearest:"), std::string::npos) << a.no_plan_reason;
  Instance slow = random_instance(2, false);
  slow.request.objective.limits.iterations_per_second = 1e6;
  const auto b = plan(slow.request, sailor::SailorArtifact{slow.library});
  ASSERT_FALSE(b.best);
  EXPECT_NE(b.no_plan_reason.find("the fastest makes"), std::string::npos) << b.no_plan_reason;
}

TEST(RulesPlannerRequests, AbsurdSizesAreAnswered) {
  Instance many = random_instance(1, false);
  for (auto& entry : many.request.pool) entry.count = 1'000'000;
  many.request.global_batch = 100'000;
  const auto a = plan(many.request, sailor::SailorArtifact{many.library});
  ASSERT_TRUE(a.best) << a.no_plan_reason;
  EXPECT_LT(a.bound_gap, 1);
  Instance free = random_instance(5, false);  // nothing takes any time
  for (auto& time : free.library.layer_times) time.forward = time.backward = time.update = {};
  const auto b = plan(free.request, sailor::SailorArtifact{free.library});
  EXPECT_TRUE(b.best) << b.no_plan_reason;
}

TEST(RulesPlannerRequests, StopsWhenTold) {
  Instance i = random_instance(5, false);
  i.request.should_stop = [] { return true; };
  const auto a = plan(i.request, sailor::SailorArtifact{i.library});
  EXPECT_FALSE(a.finished);
  EXPECT_FALSE(a.best);
  EXPECT_EQ(a.no_plan_reason, "stopped before any plan was found");
}

}  // namespace
}  // namespace flotilla::search::rules_planner_test
