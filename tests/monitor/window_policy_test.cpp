// When a window of steps is over, and what its findings call for.
#include "window_policy.hpp"

#include <gtest/gtest.h>

namespace flotilla::monitor {
namespace {

Slowness slow_for(int windows) {
  Slowness slowness;
  slowness.rank = Rank{1};
  slowness.windows = windows;
  return slowness;
}

Slowness slow_group(int group, int members) {
  Slowness slowness;
  slowness.group = group;
  for (int r = 0; r < members; ++r) slowness.members.emplace_back(r);
  return slowness;
}

TEST(WindowPolicy, WindowsTakeAboutTwoSeconds) {
  EXPECT_EQ(window_length(0), 5);
  EXPECT_EQ(window_length(1e-6), 1000);
  EXPECT_EQ(window_length(0.1), 20);
  EXPECT_EQ(window_length(60), 5);
}

TEST(WindowPolicy, AWindowIsOverAfterItsSteps) {
  EXPECT_EQ(window_state(19, 20), WindowState::open);
  EXPECT_EQ(window_state(20, 20), WindowState::over);
  EXPECT_EQ(window_state(5, 5), WindowState::over) << "the shortest";
}

TEST(WindowPolicy, TheClockIsAskedAFewTimesBefore) {
  int asked = 0;
  for (int steps = 1; steps < 1000; ++steps) asked += window_state(steps, 1000) == WindowState::unsure ? 1 : 0;
  EXPECT_EQ(asked, 7);
  EXPECT_EQ(window_state(125, 1000), WindowState::unsure);
  EXPECT_EQ(window_state(4, 20), WindowState::open) << "too few steps to say anything of";
  EXPECT_EQ(window_state(6, 20), WindowState::unsure);
  EXPECT_FALSE(overdue(Seconds{2.9}));
  EXPECT_TRUE(overdue(Seconds{3}));
}

TEST(WindowPolicy, PlanningIsWorthItWhenSomethingLastsOrIsOver) {
  EXPECT_FALSE(calls_for_planning({}, {}));
  const std::vector<Slowness> news{slow_for(2)}, lasting{slow_for(3)}, old{slow_for(4)};
  EXPECT_FALSE(calls_for_planning(news, news)) << "two windows make it known, no more";
  EXPECT_TRUE(calls_for_planning(lasting, {}));
  EXPECT_FALSE(calls_for_planning(old, {})) << "that was asked a window ago";
  auto over = slow_for(0);
  over.over = true;
  EXPECT_TRUE(calls_for_planning({}, std::vector<Slowness>{over}));
}

TEST(WindowPolicy, LinksAreLookedAtInGroupsOverMoreThanTwoHosts) {
  const auto a_host_each = [](const std::vector<Rank>& members) { return members.size(); };
  auto over = slow_group(4, 5);
  over.over = true;
  const std::vector<Slowness> news{slow_for(2), slow_group(3, 2), over, slow_group(7, 3), slow_group(8, 4)};
  const auto found = group_to_look_at(news, a_host_each);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->group, 7) << "the first that has links to tell apart";
  EXPECT_FALSE(group_to_look_at(news, [](const auto&) { return std::size_t{2}; }));
}

}  // namespace
}  // namespace flotilla::monitor
