// What a run works on: its ranks, and their devices by type and zone.
#include "device_inventory.hpp"

#include <gtest/gtest.h>

#include "active_ranks.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::session {
namespace {

plan::Plan on(std::vector<std::vector<int>> stages) {
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 32, 8, Precision::fp32, static_cast<int>(stages[0].size()),
                              static_cast<int>(stages.size()), 1, 2);
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (std::size_t r = 0; r < stages[s].size(); ++r) plan.stages[s].replicas[r].devices = {Rank{stages[s][r]}};
  return plan;
}

TEST(DeviceInventory, HostsCountOnceWithTheFirstOfTheirGroups) {
  cluster::Profile profile;
  profile.devices = {{Rank{0}, "fast", "n0", "a", 0, 1},
                     {Rank{1}, "slow", "n0", "a", 1, 1},
                     {Rank{2}, "fast", "n1", "a", 0, 1},
                     {Rank{3}, "fast", "n2", "b", 0, 1}};
  EXPECT_EQ(device_inventory(profile, {Rank{0}, Rank{1}, Rank{2}, Rank{3}}),
            (std::vector<journal::InventoryEntry>{{"fast", "a", 2, 2}, {"slow", "a", 1, 0}, {"fast", "b", 1, 1}}));
  EXPECT_EQ(device_inventory(profile, {Rank{1}}), (std::vector<journal::InventoryEntry>{{"slow", "a", 1, 1}}));
}

TEST(ActiveRanks, AreThoseThatThePlanNamesInOrder) {
  EXPECT_EQ(active_ranks_of(on({{5, 2}, {0, 4}})), (std::vector<Rank>{Rank{0}, Rank{2}, Rank{4}, Rank{5}}));
}

TEST(ActiveRanks, AreNumberedFromZeroInTheProgram) {
  const auto plan = on({{5, 2}, {0, 4}});
  EXPECT_EQ(renumbered(plan, active_ranks_of(plan)), on({{3, 1}, {0, 2}}));
}

}  // namespace
}  // namespace flotilla::session
