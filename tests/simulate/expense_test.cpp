#include "report/expense.hpp"

#include <gtest/gtest.h>

#include "cluster_fixture.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/simulate/forecaster.hpp"

// What an iteration costs, by hand arithmetic.
namespace flotilla::expense_test {
namespace {

using simulate::ZoneTraffic;

constexpr int length = 64;
/// Of the step's scalars, 11 of 8 bytes, that every rank sends each other one.
constexpr double scalars = 88;

/// A device a zone, hosts h0, h1, ...; two types.
cluster::Profile zoned(const std::vector<std::string>& zones) {
  auto profile = fixture::uniform_cluster(static_cast<int>(zones.size()), 1);
  profile.device_types.push_back(fixture::device_type("fast", 100, 20));
  profile.device_types[0].usd_per_hour = 3;
  profile.device_types[1].usd_per_hour = 7;
  profile.links.push_back(fixture::link(cluster::LinkLevel::wide, "a", "b", 1e-3, 1e7));
  for (std::size_t r = 0; r < zones.size(); ++r) profile.devices[r].zone = zones[r];
  return profile;
}

plan::Plan plan_of(int data, int pipeline, int batch, const std::vector<std::string>& types) {
  auto plan = plan::even_plan(model::built_in("gpt2-mini"), length, batch, Precision::fp32, data, pipeline, 1, 2);
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.device_type = types.at(replica.devices.front().index());
  return plan;
}

std::vector<ZoneTraffic> traffic(const plan::Plan& plan, const cluster::Profile& profile) {
  return simulate::traffic_between_zones(program::lower(plan, {}), profile.devices);
}

TEST(ZoneTraffic, OfAPipelineIsActivationsGradientsAndTheTiedWordTable) {
  const auto plan = plan_of(1, 2, 6, {"slow", "slow"});
  const double activations = 6.0 * length * 128 * 4, token_embedding_table = 256.0 * 128 * 4;
  // Two members: each sends the half that the other sums and gives back its own half summed: all of the table, each way.
  const double each_way = activations + token_embedding_table + scalars;
  EXPECT_EQ(traffic(plan, zoned({"a", "b"})), (std::vector<ZoneTraffic>{{"a", "b", each_way}, {"b", "a", each_way}}));
  EXPECT_TRUE(traffic(plan, zoned({"a", "a"})).empty());
}

TEST(ZoneTraffic, OfDataParallelReplicasIsTheGradient) {
  double parameters = 0;
  const auto plan = plan_of(3, 1, 6, {"slow", "slow", "slow"});
  for (const auto& tensor : model::tensors(plan.model)) parameters += static_cast<double>(tensor.elements());
  const auto found = traffic(plan, zoned({"a", "b", "b"}));
  ASSERT_EQ(found.size(), 2u);
  // One member of a, two of b: a sends b its two thirds and each of both a's summed third; b sends back as much.
  const double third = parameters * 4 / 3;
  for (const auto& flow : found) EXPECT_NEAR(flow.bytes, 4 * third + 2 * scalars, 400) << flow.from;  // thirds of layers are rounded
  EXPECT_EQ(found[0].from, "a");
  EXPECT_EQ(found[1].from, "b");
}

TEST(Expense, IsDevicesTimesPriceTimesTimeAndBytesTimesEgress) {
  auto profile = zoned({"a", "b"});
  profile.device_types[0].billing_weight = 10;
  profile.device_types[1].billing_weight = 20;
  profile.device_types[0].power_watts = 300;
  profile.device_types[1].power_watts = 500;
  profile.egress_prices = {{"a", "b", 2e-9}, {"b", "a", 5e-9}};
  const auto plan = plan_of(1, 2, 6, {"slow", "fast"});
  const auto e = simulate::expense_of(program::lower(plan, {}), profile, Seconds{1800});
  EXPECT_DOUBLE_EQ(*e.device_usd, (3 + 7) * 0.5);
  EXPECT_DOUBLE_EQ(*e.billing_units, (10 + 20) * 0.5);
  EXPECT_DOUBLE_EQ(*e.energy_joules, (300 + 500) * 1800.0);
  const double bytes = 6.0 * length * 128 * 4 + 256.0 * 128 * 4 + scalars;
  EXPECT_DOUBLE_EQ(*e.egress_usd, bytes * 2e-9 + bytes * 5e-9);
  EXPECT_DOUBLE_EQ(*e.usd(), *e.device_usd + *e.egress_usd);
}

TEST(Expense, IsAbsentWhereAPriceIs) {
  auto profile = zoned({"a", "b"});
  const auto slow = program::lower(plan_of(1, 2, 6, {"slow", "slow"}), {}), both = program::lower(plan_of(1, 2, 6, {"slow", "fast"}), {});
  profile.device_types[1].usd_per_hour = 0;
  EXPECT_TRUE(simulate::expense_of(slow, profile, Seconds{1}).device_usd);
  const auto e = simulate::expense_of(both, profile, Seconds{1});
  EXPECT_FALSE(e.device_usd);
  EXPECT_FALSE(e.usd());
  EXPECT_FALSE(e.billing_units);
  EXPECT_FALSE(e.energy_joules);
  EXPECT_FALSE(e.egress_usd);  // bytes cross, nobody knows at what price
  profile.egress_prices = {{"a", "b", 1e-9}};
  EXPECT_FALSE(simulate::expense_of(both, profile, Seconds{1}).egress_usd);  // the way back has none
  for (auto& device : profile.devices) device.zone = "a";
  EXPECT_EQ(simulate::expense_of(both, profile, Seconds{1}).egress_usd, 0);
}

TEST(Expense, IsPartOfAForecast) {
  const auto profile = zoned({"a", "a"});
  const simulate::ProgramForecaster forecaster{profile, {}, Bytes{1 << 20}};
  const auto forecast = forecaster.forecast(plan_of(2, 1, 6, {"slow", "slow"}));
  EXPECT_DOUBLE_EQ(*forecast.expense.usd(), 2 * 3 * forecast.iteration.value / 3600);
}

}  // namespace
}  // namespace flotilla::expense_test
