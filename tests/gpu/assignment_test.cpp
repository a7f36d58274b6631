#include "flotilla/gpu/assignment.hpp"

#include <gtest/gtest.h>

namespace flotilla::gpu {
namespace {

using Ints = std::vector<int>;
const std::vector<int> left{0, 1}, right{2, 3}, all{0, 1, 2, 3};
const DevicePlaces two_sockets{{"A", left}, {"B", left}, {"C", right}, {"D", right}};

std::vector<RankView> views(std::vector<std::vector<std::string>> visible, std::vector<Ints> usable = {}) {
  std::vector<RankView> ranks;
  for (std::size_t r = 0; r < visible.size(); ++r) ranks.push_back({visible[r], r < usable.size() ? usable[r] : all});
  return ranks;
}

TEST(AssignDevices, OneEachInOrderWhereAllSeeAll) {
  const std::vector<std::string> see{"A", "B", "C", "D"};
  EXPECT_EQ(assign_devices(views({see, see, see, see}), two_sockets), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(assign_devices(views({see, see}), {}), (Ints{0, 1}));
}

TEST(AssignDevices, TakesTheNearSide) {
  const std::vector<std::string> see{"A", "B", "C", "D"};
  EXPECT_EQ(assign_devices(views({see, see, see, see}, {right, left, right, left}), two_sockets), (Ints{2, 0, 3, 1}));
  EXPECT_EQ(assign_devices(views({see, see}, {all, left}), two_sockets), (Ints{1, 0})) << "who is bound chooses before who is not";
}

TEST(AssignDevices, LeavesToEachWhatTheLauncherGave) {
  // --gpus-per-task=1: each rank sees one device, which is 0 to it.
  EXPECT_EQ(assign_devices(views({{"B"}, {"A"}, {"D"}}), two_sockets), (Ints{0, 0, 0}));
  // One rank with a device of its own, and one that sees both: the second takes the other.
  EXPECT_EQ(assign_devices(views({{"A", "B"}, {"A"}}), two_sockets), (Ints{1, 0}));
}

TEST(AssignDevices, OrdinalsAreTheRanksOwn) {
  // CUDA_VISIBLE_DEVICES=3,2 and 2,3.
  EXPECT_EQ(assign_devices(views({{"D", "C"}, {"C", "D"}}), two_sockets), (Ints{0, 0}));
}

TEST(AssignDevices, SeesNone) {
  EXPECT_EQ(assign_devices(views({{}, {"A"}}), two_sockets), (Ints{-1, 0}));
  EXPECT_EQ(assign_devices({}, two_sockets), Ints{});
}

TEST(SharedDevices, NamesTheRanks) {
  const auto ranks = views({{"A", "B"}, {"A", "B"}, {"A", "B"}, {"MIG-1"}, {"MIG-2"}});
  const Ints assigned = assign_devices(ranks, two_sockets);
  EXPECT_EQ(assigned, (Ints{0, 1, 0, 0, 0}));
  EXPECT_EQ(shared_devices(ranks, assigned), (std::map<std::string, Ints>{{"A", {0, 2}}})) << "slices of one device are devices";
  EXPECT_TRUE(shared_devices(views({{"A"}, {"B"}}), Ints{0, 0}).empty());
}

}  // namespace
}  // namespace flotilla::gpu
