// What moving the training state takes, by hand arithmetic.
#include "flotilla/simulate/moving_time.hpp"

#include <gtest/gtest.h>

#include "cluster_fixture.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/migration.hpp"

namespace flotilla::simulate::moving_time_test {
namespace {

const auto mini = model::built_in("gpt2-mini");

plan::Plan even(int data, int pipeline, std::vector<int> cuts = {}) {
  return plan::even_plan(mini, 32, 8, Precision::fp32, data, pipeline, 1, 1, plan::ScheduleKind::one_f_one_b, std::move(cuts));
}

TEST(MovingTime, NothingMovesNoTime) { EXPECT_EQ(moving_time(fixture::uniform_cluster(2, 1), even(1, 2), even(1, 2)), Seconds{0}); }

TEST(MovingTime, OneMessageAfterTheOtherOverTheLinkOfTheBusiestRank) {
  const auto profile = fixture::uniform_cluster(2, 1);
  const auto from = even(1, 2, {0, 3, 6}), to = even(1, 2, {0, 4, 6});
  double seconds = 0;
  const auto& link = cluster::link_between(profile, Rank{0}, Rank{1});
  const auto moved = program::migrate(from, to, program::placement_of(profile.devices));
  for (const auto& transfer : moved.transfers)
    if (!transfer.stays()) seconds += cluster::transfer_time(link, transfer.size()).value;
  ASSERT_GT(seconds, 0);
  EXPECT_NEAR(moving_time(profile, from, to).value, seconds, 1e-12 * seconds);
}

TEST(MovingTime, SlowerLinksTakeLonger) {
  auto profile = fixture::uniform_cluster(4, 1);
  const auto from = even(4, 1), to = even(1, 4);
  const auto there = moving_time(profile, to, from);  // from one copy to four
  for (auto& link : profile.links)
    for (auto& piece : link.pieces) piece.bandwidth.value /= 10;
  EXPECT_GT(moving_time(profile, to, from), 5 * there);
  EXPECT_EQ(moving_time(profile, from, to), Seconds{0}) << "every rank has what its stage wants";
}

TEST(MovingTime, AFullUplinkIsWaitedFor) {
  auto profile = fixture::uniform_cluster(2, 1);
  profile.devices[0].zone = "a";
  profile.devices[1].zone = "b";
  profile.links.push_back(fixture::link(cluster::LinkLevel::wide, "a", "b", 50e-6, 1e8));
  const auto from = even(1, 2, {0, 3, 6}), to = even(1, 2, {0, 4, 6});
  const auto free = moving_time(profile, from, to);
  cluster::Uplink uplink;
  uplink.zone = "b";
  uplink.bandwidth = BytesPerSecond{1e5};
  profile.uplinks = {uplink};
  double bytes = 0;
  for (const auto& transfer : program::migrate(from, to, program::placement_of(profile.devices)).transfers)
    if (!transfer.stays()) bytes += static_cast<double>(transfer.size().count);
  EXPECT_GT(moving_time(profile, from, to), free);
  EXPECT_NEAR(moving_time(profile, from, to).value, bytes / 1e5, 1e-9 * bytes);
}

}  // namespace
}  // namespace flotilla::simulate::moving_time_test
