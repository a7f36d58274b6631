#include "flotilla/plan/allocate.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"

namespace flotilla::plan::allocate_test {
namespace {

cluster::Profile four_a_node() {
  cluster::Profile profile;
  cluster::DeviceType type;
  type.name = "A";
  type.per_node = 4;
  profile.device_types.push_back(type);
  return profile;
}

Plan plan_of(std::vector<int> degrees) {
  Plan plan =
      even_plan(model::built_in("gpt2"), 64, static_cast<int>(degrees.size()), Precision::fp32, static_cast<int>(degrees.size()), 1, 1, 1);
  for (std::size_t r = 0; r < degrees.size(); ++r) {
    auto& replica = plan.stages[0].replicas[r];
    replica.device_type = "A";
    replica.tensor_parallel = degrees[r];
    replica.devices.clear();
  }
  return plan;
}

std::vector<std::string> hosts(const AllocatedPlan& allocation) {
  std::vector<std::string> names;
  for (const auto& device : allocation.devices) names.push_back(device.host);
  return names;
}

TEST(Allocate, FillsHostsAndKeepsReplicasWhole) {
  const auto allocation = allocate(plan_of({2, 1, 2, 1}), four_a_node());
  EXPECT_EQ(hosts(allocation), (std::vector<std::string>{"A-0", "A-0", "A-1", "A-0", "A-0", "A-1"}));  // wide ones first
  EXPECT_EQ(allocation.plan.stages[0].replicas[2].devices, (std::vector<Rank>{Rank{3}, Rank{4}}));
  EXPECT_TRUE(validate(allocation.plan).empty());
}

TEST(Allocate, ReplicasLargerThanAHostBeginOne) {
  EXPECT_EQ(hosts(allocate(plan_of({1, 6}), four_a_node())), (std::vector<std::string>{"A-1", "A-0", "A-0", "A-0", "A-0", "A-1", "A-1"}));
  EXPECT_EQ(hosts(allocate(plan_of({1, 8, 1}), four_a_node())),
            (std::vector<std::string>{"A-2", "A-0", "A-0", "A-0", "A-0", "A-1", "A-1", "A-1", "A-1", "A-2"}));
}

TEST(Allocate, FillsTheFullestHostThatHasRoom) {
  EXPECT_EQ(hosts(allocate(plan_of({1, 3, 2, 1, 1}), four_a_node())),
            (std::vector<std::string>{"A-0", "A-0", "A-0", "A-0", "A-1", "A-1", "A-1", "A-1"}));
}

TEST(Allocate, StagesOfOneDeviceShareIt) {
  Plan plan = plan_of({1});
  plan.schedule = ScheduleKind::interleaved;
  plan.chunks = 2;
  plan.stages.push_back(plan.stages[0]);
  plan.stages[0].last_layer = 4;
  plan.stages[1].first_layer = 4;
  const auto allocation = allocate(plan, four_a_node());
  EXPECT_EQ(allocation.devices.size(), 1u);
  EXPECT_TRUE(validate(allocation.plan).empty());
}

TEST(Allocate, RefusesUnknownTypesAndBoundPlans) {
  auto plan = plan_of({1});
  plan.stages[0].replicas[0].device_type = "B";
  EXPECT_STREQ(tests::error_of([&] { allocate(plan, four_a_node()); }).what(),
               "stages[0].replicas[0].device_type: the profile knows no type 'B'; it has A");
  plan = plan_of({1});
  plan.stages[0].replicas[0].devices = {Rank{0}};
  EXPECT_THROW(allocate(plan, four_a_node()), Error);
}

}  // namespace
}  // namespace flotilla::plan::allocate_test
