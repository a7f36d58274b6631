// The planner by our own forecast over many random pools, models, objectives, limits and restrictions.
#include <gtest/gtest.h>

#include <cstdlib>

#include "pool_checks.hpp"

namespace flotilla::fixture {
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

TEST(PoolProperties, AnswersHoldTheirInvariants) { expect_sense({1000, 1150}, {}); }
TEST(PoolProperties, NoPlanIsBelowTheFloor) { expect_floor({1000, 1100}, a_few_dozen(), 250); }
/// Hardly a random plan fits scarce memory or keeps limits: here all do.
TEST(PoolProperties, NoPlanIsBelowTheFloorWhereAllFit) {
  Range range = a_few_dozen();
  range.least_memory = 4, range.most_memory = 8, range.limits = false;
  expect_floor({2000, 2100}, range, 250);
}
TEST(PoolProperties, NoPlanOfAFewDevicesIsBelowTheFloor) {
  Range range = few_devices();
  range.described_runtimes = false;
  expect_floor({3000, 3200}, range, 250);
}
TEST(PoolProperties, EstimatesAreClose) { expect_close_estimates({1000, 1100}, a_few_dozen(), 40, 0.1); }
TEST(PoolProperties, IsDeterministic) { expect_deterministic({1000, 1030}, {}); }
TEST(PoolProperties, IsAsGoodAsEnumeration) { expect_as_good_as_enumeration({1000, 1200}, few_devices(), 0.03, 0.95); }
TEST(PoolProperties, TheFloorIsMonotone) { expect_monotone_floor({4000, 4120}, a_few_dozen()); }
/// FLOTILLA_MONOTONY_PAIRS=14000 makes some 10,000 pairs, in about half an hour.
TEST(PoolProperties, NoLargerPoolIsWorseBeyondItsGap) {
  const char* pairs = std::getenv("FLOTILLA_MONOTONY_PAIRS");
  Range range = few_devices();
  range.described_runtimes = false, range.limits = false;
  expect_bound_keeps_smaller_pools({10'000, 10'000 + (pairs ? std::atoi(pairs) : 120)}, range);
}
/// The aim is that none is. Measured: 95 % of the pairs equal, 99 % within 2.7 %, the worst 35 % (docs/measurements/planner-quality.md).
TEST(PoolProperties, AFixedOptionIsHardlyEverBetter) { expect_no_fixed_option_better({1000, 1060}, a_few_dozen(), 0.005, 0.95); }
TEST(PoolProperties, RelaxedConstraintsKeepTheAnswerAsGood) { expect_monotone({1000, 1200}, a_few_dozen(), 0.02, 0.97); }

}  // namespace
}  // namespace flotilla::fixture
