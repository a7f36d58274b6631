#include "flotilla/monitor/self_check.hpp"

#include <gtest/gtest.h>

#include <random>

namespace flotilla::monitor {
namespace {

using Windows = std::vector<RankWindow>;

/// Ranks whose forecast is 1, 2, 3, ... ms of work; `load` multiplies what each is measured at.
struct Crew {
  explicit Crew(std::size_t ranks) : load(ranks, 1.0) {
    for (std::size_t r = 0; r < ranks; ++r) busy.push_back(1e-3 * static_cast<double>(r + 1));
    check = SelfCheck{busy};
  }
  std::vector<Slowness> window() {
    Windows windows(load.size());
    for (std::size_t r = 0; r < load.size(); ++r) windows[r] = {10e-3, busy[r] * load[r] * bias, -1, 0, 0};
    for (const auto& [rank, peer, seconds] : links)
      windows[static_cast<std::size_t>(rank)].peer = peer, windows[static_cast<std::size_t>(rank)].link = seconds,
      windows[static_cast<std::size_t>(rank)].link_forecast = 1e-3;
    return check.judge(windows);
  }
  struct Send {
    int rank, peer;
    double seconds;
  };
  std::vector<double> busy, load;
  double bias = 1;  ///< by which the forecast is wrong for all
  std::vector<Send> links;
  SelfCheck check;
};

TEST(SelfCheck, OneWarningWhenADeviceBecomesSlowAndOneWhenItIsOver) {
  Crew crew{4};
  crew.bias = 1.8;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(crew.window().empty());
  crew.load[2] = 2;
  EXPECT_TRUE(crew.window().empty()) << "one window is not enough";
  const auto slow = crew.window();
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].rank, Rank{2});
  EXPECT_TRUE(slow[0].is_device());
  EXPECT_FALSE(slow[0].over);
  EXPECT_NEAR(slow[0].factor, 2, 1e-9);
  EXPECT_NEAR(slow[0].cost.value, 3e-3 * 1.8, 1e-9);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(crew.window().empty()) << "said once";
  EXPECT_EQ(crew.check.slow_now().size(), 1u);
  crew.load[2] = 1.3;  // neither slow nor fast
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(crew.window().empty());
  crew.load[2] = 0.7;
  EXPECT_TRUE(crew.window().empty());
  const auto over = crew.window();
  ASSERT_EQ(over.size(), 1u);
  EXPECT_TRUE(over[0].over);
  EXPECT_EQ(over[0].rank, Rank{2});
  EXPECT_EQ(over[0].cost.value, 0) << "what is faster than usual costs nothing";
  EXPECT_TRUE(crew.check.slow_now().empty());
}

TEST(SelfCheck, OfTwoRanksTheSlowerOneIsNamed) {
  for (const std::size_t victim : {0u, 1u}) {
    Crew crew{2};
    crew.load[victim] = 3;
    crew.window();
    const auto slow = crew.window();
    ASSERT_EQ(slow.size(), 1u);
    EXPECT_EQ(slow[0].rank.index(), victim);
  }
}

TEST(SelfCheck, ACrewOfOneIsMeasuredByItsOwnBeginning) {
  Crew crew{1};
  crew.bias = 5;
  EXPECT_TRUE(crew.window().empty());
  EXPECT_TRUE(crew.window().empty());
  crew.load[0] = 2;
  crew.window();
  EXPECT_EQ(crew.window().size(), 1u);
}

TEST(SelfCheck, ALinkIsBlamedOnlyWhereItsEndsAreFine) {
  Crew crew{3};
  crew.links = {{0, 1, 1e-3}};
  EXPECT_TRUE(crew.window().empty());
  crew.links = {{0, 1, 9e-3}};
  EXPECT_TRUE(crew.window().empty());
  const auto slow = crew.window();
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].rank, Rank{0});
  EXPECT_EQ(slow[0].peer, Rank{1});
  EXPECT_NEAR(slow[0].factor, 9, 1e-9);
  crew.links = {};
  crew.window();
  const auto over = crew.window();
  ASSERT_EQ(over.size(), 1u);
  EXPECT_TRUE(over[0].over);
  EXPECT_EQ(over[0].peer, Rank{1});

  Crew begins{3};  // one is slow from the start, beside others
  begins.links = {{0, 1, 9e-3}, {1, 2, 1e-3}};
  begins.window();
  EXPECT_EQ(begins.window().size(), 1u);

  Crew busy{3};  // all messages take long, as where processes share processors
  busy.links = {{0, 1, 8e-3}, {1, 2, 6e-3}, {2, 1, 9e-3}};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(busy.window().empty());
  busy.links[1].seconds = 40e-3;
  busy.window();
  const auto slower = busy.window();
  ASSERT_EQ(slower.size(), 1u);
  EXPECT_EQ(slower[0].rank, Rank{1});
  EXPECT_NEAR(slower[0].factor, 40.0 / 6, 1e-9);

  Crew stuck{3};  // who is slow receives late, too
  stuck.load[1] = 4;
  stuck.links = {{0, 1, 9e-3}};
  for (int i = 0; i < 4; ++i)
    for (const auto& s : stuck.window()) EXPECT_FALSE(s.peer.valid());
}

/// Three ranks that sum their gradients: what each spends in the sum, of which 1 ms is forecast.
struct Summing {
  std::vector<Slowness> window(const std::vector<double>& seconds, const std::vector<double>& load = {1, 1, 1}) {
    Windows windows(3);
    for (std::size_t r = 0; r < 3; ++r) {
      windows[r] = {20e-3, 1e-3 * load[r], -1, 0, 0};
      windows[r].groups[0] = {1, seconds[r], 1e-3};
    }
    return check.judge(windows);
  }
  SelfCheck check{{1e-3, 1e-3, 1e-3}, {{}, {Rank{0}, Rank{1}, Rank{2}}}};
};

TEST(SelfCheck, TheNetworkOfAGroupIsNamedByWhatItsLastMemberSees) {
  Summing crew;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(crew.window({9e-3, 1e-3, 9e-3}).empty()) << "two wait for the third";
  EXPECT_TRUE(crew.window({9e-3, 6e-3, 8e-3}).empty());
  const auto slow = crew.window({9e-3, 6e-3, 8e-3});
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_FALSE(slow[0].is_device());
  EXPECT_EQ(slow[0].group, 1);
  EXPECT_EQ(slow[0].members.size(), 3u);
  EXPECT_NEAR(slow[0].factor, 6, 1e-9);
  EXPECT_NEAR(slow[0].cost.value, 5e-3, 1e-9);
  EXPECT_EQ(crew.check.slow_now().size(), 1u);
  const std::vector<SlowLink> links{{Rank{1}, Rank{2}, 7}};
  crew.check.found(1, links);
  crew.window({9e-3, 6e-3, 8e-3});
  EXPECT_EQ(crew.check.slow_now().at(0).links, links);
  crew.window({1e-3, 1e-3, 1e-3});
  const auto over = crew.window({1e-3, 1e-3, 1e-3});
  ASSERT_EQ(over.size(), 1u);
  EXPECT_TRUE(over[0].over);
  EXPECT_EQ(over[0].group, 1);
  crew.window({9e-3, 6e-3, 8e-3});
  crew.window({9e-3, 6e-3, 8e-3});
  EXPECT_TRUE(crew.check.slow_now().at(0).links.empty()) << "slow again, perhaps another link";
}

TEST(SelfCheck, OfAGroupWithASlowMemberTheNetworkIsNotBlamed) {
  Summing crew;
  for (int i = 0; i < 4; ++i)
    for (const auto& s : crew.window({9e-3, 6e-3, 8e-3}, {1, 1, 4})) EXPECT_TRUE(s.is_device());
}

TEST(SelfCheck, ABusyMemberDoesNotHideANetworkThatLosesFarMore) {
  Summing crew;
  for (int i = 0; i < 3; ++i) crew.window({2e-3, 2e-3, 2e-3}, {2, 2, 2});
  crew.window({90e-3, 80e-3, 85e-3}, {2, 2, 2});
  const auto slow = crew.window({90e-3, 80e-3, 85e-3}, {2, 2, 2});
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].group, 1);
  EXPECT_NEAR(slow[0].factor, 40, 1e-9);
}

TEST(SelfCheck, NoiseAccusesNobody) {
  std::mt19937 random{9};
  Crew crew{8};
  for (int i = 0; i < 500; ++i) {
    for (auto& load : crew.load) load = std::uniform_real_distribution<>{0.9, 1.3}(random);
    crew.load[static_cast<std::size_t>(i / 2) % 8] = i % 2 == 0 ? 4 : 1;  // a burst of one window, on every rank in turn
    EXPECT_TRUE(crew.window().empty()) << i;
  }
}

}  // namespace
}  // namespace flotilla::monitor
