// How a plan goes round a slow link: hosts of the plan change places.
#include "host_permutation.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/text.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::session {
namespace {

/// Ranks on hosts of one zone, so many on each.
cluster::Profile ranks_on_hosts(int ranks, int per_host) {
  cluster::Profile profile;
  for (int r = 0; r < ranks; ++r) profile.devices.push_back({Rank{r}, "cpu", text("n", r / per_host), "", r % per_host, 1});
  return profile;
}

plan::Plan plan_of(int data, int pipeline, int tensor) {
  return plan::even_plan(model::built_in("gpt2-tiny"), 32, 8, Precision::fp32, data, pipeline, tensor, 2);
}

std::vector<int> ranks_by_stage(const plan::Plan& plan) {
  std::vector<int> ranks;
  for (const auto& stage : plan.stages) ranks.push_back(stage.replicas.front().devices.front().value);
  return ranks;
}

TEST(HostPermutation, APipelineGoesRoundASlowLink) {
  const auto profile = ranks_on_hosts(3, 1);
  std::vector<std::vector<int>> orders;
  for (const auto& plan : host_permutations(plan_of(1, 3, 1), profile, std::vector<cluster::SlowPair>{{Rank{0}, Rank{1}, 9}})) {
    EXPECT_TRUE(plan::validate(plan).empty());
    orders.push_back(ranks_by_stage(plan));
  }
  EXPECT_EQ(orders, (std::vector<std::vector<int>>{{2, 1, 0}, {0, 2, 1}}));
}

TEST(HostPermutation, HostsOfOtherTypesOrSizesStayWhereTheyAre) {
  auto profile = ranks_on_hosts(3, 1);
  profile.devices[2].type = "gpu";
  const std::vector<cluster::SlowPair> slow{{Rank{0}, Rank{1}, 9}};
  EXPECT_TRUE(host_permutations(plan_of(1, 3, 1), profile, slow).empty());
  EXPECT_TRUE(host_permutations(plan_of(1, 3, 1), ranks_on_hosts(3, 2), slow).empty()) << "both ends on one host";
  EXPECT_TRUE(host_permutations(plan_of(1, 2, 1), ranks_on_hosts(2, 1), slow).empty()) << "there is no third";
  const auto pairs = host_permutations(plan_of(1, 3, 2), ranks_on_hosts(6, 2), std::vector<cluster::SlowPair>{{Rank{1}, Rank{2}, 9}});
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[1].stages[1].replicas[0].devices, (std::vector<Rank>{Rank{4}, Rank{5}})) << "a host's ranks go together";
}

}  // namespace
}  // namespace flotilla::session
