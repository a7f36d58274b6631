// Groups between devices that cannot be: each goes on through the hosts' memory, all ranks know it, and nobody waits for long.
#include "device_groups.hpp"

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"
#include "world_fixture.hpp"

namespace flotilla::comm {
namespace {

using Kind = program::Group::Kind;

class DeviceGroupsTest : public WorldTest {
 protected:
  /// One of all ranks, one of the first two, one of the last two.
  std::vector<program::Group> three_groups() const {
    program::Group all{Kind::world, {}};
    for (int r = 0; r < size; ++r) all.members.push_back(Rank{r});
    return {all, {Kind::data, {Rank{0}, Rank{1}}}, {Kind::tensor, {Rank{size - 2}, Rank{size - 1}}}};
  }
  /// Which of them are connected, as far as this rank can know.
  std::vector<bool> connected(const auto& fixture) const {
    std::vector<bool> found;
    for (const auto& group : fixture.formed()) found.push_back(group != nullptr);
    return found;
  }
  std::vector<bool> mine(std::vector<bool> expected) const {
    const auto groups = three_groups();
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (std::ranges::find(groups[g].members, world.rank()) == groups[g].members.end()) expected[g] = false;
    return expected;
  }
};

TEST_F(DeviceGroupsTest, Healthy) {
  const DeviceGroupsFixture fixture{world, three_groups()};
  EXPECT_EQ(connected(fixture), mine({true, true, true}));
}

/// FLOTILLA_STANDIN_NCCL_FAULTS makes rank 0 fail, at whatever it does: its groups go on over MPI, the third does not care.
TEST_F(DeviceGroupsTest, RankZeroFails) {
  ::testing::internal::CaptureStderr();
  const DeviceGroupsFixture fixture{world, three_groups(), Seconds{2}};
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(connected(fixture), mine({false, false, true}));
  if (me == 0) {
    tests::expect_contains(told, "goes on over MPI: rank ");
    tests::expect_contains(told, " (GPU 0, ");
  } else {
    EXPECT_EQ(told.find("goes on over MPI"), std::string::npos) << told;
  }
}

/// By MPI on device memory.
TEST_F(DeviceGroupsTest, MemoryOfHealthyRanks) {
  const DeviceMemoryGroupsFixture fixture{world, three_groups()};
  EXPECT_EQ(connected(fixture), mine({true, true, true}));
}

/// Rank 0's library takes no device memory, or it says so and is wrong: it changes what it sends, or never sends it.
TEST_F(DeviceGroupsTest, MemoryOfRankZeroFails) {
  ::testing::internal::CaptureStderr();
  const DeviceMemoryGroupsFixture fixture{world, three_groups(), Seconds{2}};
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(connected(fixture), mine({false, false, true}));
  if (me == 0) tests::expect_contains(told, "goes on through the hosts' memory: rank ");
  if (const char* word = std::getenv("FLOTILLA_TEST_WORD"); me == 0 && word != nullptr) tests::expect_contains(told, word);
}

/// Rank 0's first message says who it is, and is changed on its way: rank 1 sees it, and rank 0 hears of it before it waits for a sum.
TEST_F(DeviceGroupsTest, AWrongIdentityIsEverybodysAtOnce) {
  ::testing::internal::CaptureStderr();
  const DeviceMemoryGroupsFixture fixture{world, {{Kind::data, {Rank{0}, Rank{1}}}}};
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(fixture.formed()[0], nullptr);
  if (me != 0) return;
  tests::expect_contains(told, "goes on through the hosts' memory: rank 1 on ");
  tests::expect_contains(told, "takes other ranks, or another order of them, for the group");
  EXPECT_EQ(told.find("no answer within"), std::string::npos) << told;
}

/// One rank computes on a CPU.
TEST_F(DeviceGroupsTest, GroupsWithACpuRankStayWithMpi) {
  const auto device = gpu::DeviceContext::open(0);
  const auto over_mpi = connect(world, three_groups());
  ::testing::internal::CaptureStderr();
  const auto formed = form_device_groups(
      world, over_mpi, std::vector<bool>(over_mpi.size(), true), me == 0 ? nullptr : &device, [](auto...) {}, Seconds{2});
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(formed[0] || formed[1]);
  if (me == 0) tests::expect_contains(told, "computes on a CPU");
}

}  // namespace
}  // namespace flotilla::comm
