// The planner by our own forecast over many random pools, models, objectives, limits and restrictions.
#include <gtest/gtest.h>

#include "pool_checks.hpp"
#include "support/tier.hpp"

namespace flotilla::fixture::pool_property_test {
namespace {

Range few_devices() {
  Range range;
  range.models = {"gpt2-tiny", "gpt2-mini", "opt-tiny", "opt-post-tiny"};
  range.types = 3, range.zones = 2, range.devices_of_a_place = 3, range.devices = 6, range.node_sizes = {1, 2, 3, 4}, range.batch = 8;
  range.blocks = 3, range.least_memory = 0.15;
  return range;
}

Range a_few_dozen() {
  Range range;
  range.devices_of_a_place = 8, range.devices = 40;
  return range;
}

/// The pools of a test, unless FLOTILLA_FIRST_POOL and FLOTILLA_POOLS name others and how many: for longer runs, and for pools that nobody
/// looked at. Before a release, five times as many.
Seeds pools(int first, int count) {
  const int from = tests::of_tier(first, first, "FLOTILLA_FIRST_POOL");
  return {from, from + tests::of_tier(count, 5 * count, "FLOTILLA_POOLS")};
}

TEST(PoolProperties, AnswersHoldTheirInvariants) { expect_sense(pools(1000, 25), {}); }
TEST(PoolProperties, NoPlanIsBelowTheFloor) { expect_floor(pools(1000, 25), a_few_dozen(), 150); }
/// Hardly a random plan fits scarce memory or keeps limits: here all do.
TEST(PoolProperties, NoPlanIsBelowTheFloorWhereAllFit) {
  Range range = a_few_dozen();
  range.least_memory = 4, range.most_memory = 8, range.limits = false;
  expect_floor(pools(2000, 25), range, 150);
}
TEST(PoolProperties, NoPlanOfAFewDevicesIsBelowTheFloor) {
  Range range = few_devices();
  range.described_runtimes = false;
  expect_floor(pools(3000, 50), range, 150);
}
TEST(PoolProperties, EstimatesAreClose) { expect_close_estimates(pools(1000, 25), a_few_dozen(), 40, 0.1); }
TEST(PoolProperties, IsDeterministic) { expect_deterministic(pools(1000, 6), {}); }
TEST(PoolProperties, IsAsGoodAsEnumeration) { expect_as_good_as_enumeration(pools(1050, 25), few_devices(), 0.03, 0.95); }
TEST(PoolProperties, TheFloorIsMonotone) { expect_monotone_floor(pools(4000, 30), a_few_dozen()); }
Range few_devices_of_our_runtime() {
  Range range = few_devices();
  range.described_runtimes = false, range.limits = false;
  return range;
}
/// These lost their plan with more devices or with another type: what restrictions forbid took the place of what they allow, or, in the
/// last two, what nearly fits and is fast that of what fits.
TEST(PoolProperties, ALargerPoolKeepsAPlanUnderRestrictions) {
  const Range range = few_devices_of_our_runtime();
  for (const int seed : {12'496, 13'189, 13'669, 13'276, 15'376}) expect_bound_keeps_smaller_pools({seed, seed + 1}, range);
}
/// FLOTILLA_MONOTONY_PAIRS=14000 makes some 11,000 pairs, in about ten minutes of CPU time.
TEST(PoolProperties, NoLargerPoolIsWorseBeyondItsGap) {
  const int pairs = tests::of_tier(20, 120, "FLOTILLA_MONOTONY_PAIRS");
  expect_bound_keeps_smaller_pools({10'000, 10'000 + pairs}, few_devices_of_our_runtime());
}
/// The aim is that none is. Measured: docs/measurements/planner-quality.md.
TEST(PoolProperties, AFixedOptionIsHardlyEverBetter) { expect_no_fixed_option_better(pools(1000, 6), a_few_dozen(), 0.005, 0.95); }
TEST(PoolProperties, RelaxedConstraintsKeepTheAnswerAsGood) { expect_monotone(pools(1000, 15), a_few_dozen(), 0.02, 0.97); }

}  // namespace
}  // namespace flotilla::fixture::pool_property_test
