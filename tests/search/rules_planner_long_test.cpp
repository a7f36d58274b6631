// The planner under closed formulas against plain enumeration: 2,000 pools of up to eight devices, 150 of ten, 200 of ten over two or three
// zones, and 500 pairs of pools or limits of which one is looser.
#include "rules_checks.hpp"

namespace flotilla::search::rules_planner_long_test {
namespace {

TEST(RulesPlannerLong, EqualsEnumeration) {
  for (int seed = 0; seed < 2000; ++seed) expect_equal(random_instance(seed, seed % 2 == 1), seed);
}

TEST(RulesPlannerLong, EqualsEnumerationOfMoreDevices) {
  for (int seed = 0; seed < 150; ++seed) expect_equal(larger_instance(seed), seed);
}

TEST(RulesPlannerLong, IsNearEnumerationOverZones) {
  for (int seed = 0; seed < 200; ++seed) expect_near(zoned_instance(seed), seed, 1.005);
}

TEST(RulesPlannerLong, MoreIsNeverWorse) {
  for (int seed = 0; seed < 500; ++seed) expect_monotone(seed);
}

}  // namespace
}  // namespace flotilla::search::rules_planner_long_test
