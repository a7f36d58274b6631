#include "flotilla/slurm/network_switches.hpp"

#include <gtest/gtest.h>

#include "support/refusal.hpp"

namespace flotilla::slurm {
namespace {

TEST(NetworkSwitches, OfTheLowestLevelCount) {
  const auto switches = switches_of_nodes(
      "SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=tux[0-1]\n"
      "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=tux2,login\n"
      "SwitchName=spine Level=1 LinkSpeed=1 Nodes=tux[0-2] Switches=leaf[0-1]\n");
  EXPECT_EQ(switches, (std::map<std::string, std::string>{{"tux0", "leaf0"}, {"tux1", "leaf0"}, {"tux2", "leaf1"}, {"login", "leaf1"}}));
}

TEST(NetworkSwitches, ASiteMayDescribeNone) {
  EXPECT_TRUE(switches_of_nodes("").empty());
  EXPECT_TRUE(switches_of_nodes("No topology information available\n").empty());
}

TEST(NetworkSwitches, AListThatIsNoneIsRefused) {
  tests::expect_refused([] { switches_of_nodes("SwitchName=leaf0 Level=0 Nodes=tux[0-\n"); }, "scontrol show topology");
}

}  // namespace
}  // namespace flotilla::slurm
