// The card and the soak as values: what is derived from them, and what they make of a verdict.
#include <gtest/gtest.h>

#include "flotilla/bench/verdict.hpp"
#include "made_up.hpp"

namespace flotilla::bench {
namespace {

using tests::made_up_report;

/// `windows` of 10 s; the step takes `first`, and from the middle on `last` times that.
Soak made_up_soak(int windows, double first, double last) {
  Soak soak;
  soak.wanted = soak.lasted = Seconds{10.0 * windows};
  soak.ended = "time";
  soak.steps = 1000 * windows;
  for (int w = 0; w < windows; ++w) {
    const double scatter = 1 + 0.004 * (w % 5 - 2);
    soak.windows.push_back({Seconds{10.0 * (w + 1)}, 100, Seconds{first * scatter * (2 * w < windows ? 1 : last)}, 0.01, 60, 3e9});
  }
  return soak;
}

std::vector<Reason> said_of(const Soak& soak) {
  auto report = made_up_report(1);
  report.nodes[0].soak = soak;
  return judge(report, {}).front().reasons;
}

TEST(Soak, OfASteadyNodeSaysNothing) {
  EXPECT_TRUE(said_of(made_up_soak(100, 5e-3, 1)).empty());
  EXPECT_TRUE(said_of(made_up_soak(100, 5e-3, 1.04)).empty());
  EXPECT_TRUE(said_of(made_up_soak(100, 5e-3, 0.7)).empty()) << "it became faster";
}

TEST(Soak, AStepThatGrowsLongerIsNamed) {
  const auto some = said_of(made_up_soak(100, 5e-3, 1.08));
  ASSERT_EQ(some.size(), 1u);
  EXPECT_EQ(some[0].grade, Grade::watch);
  EXPECT_EQ(some[0].what.find("a training step took 8.0 % longer at the end of"), 0u) << some[0].what;
  EXPECT_EQ(said_of(made_up_soak(100, 5e-3, 1.3)).front().grade, Grade::drain);
}

TEST(Soak, WindowsOfOthersWorkDoNotCount) {
  auto soak = made_up_soak(100, 5e-3, 1);
  for (std::size_t w = 80; w < 90; ++w) soak.windows[w].others = 0.5, soak.windows[w].step = Seconds{9e-3};
  EXPECT_TRUE(said_of(soak).empty());
  for (std::size_t w = 80; w < 100; ++w) soak.windows[w].others = 0.5, soak.windows[w].step = Seconds{9e-3};
  EXPECT_FALSE(drift_of(soak, SoakedDevice::hardware_threads).has_value()) << "nothing is left to judge";
  EXPECT_FALSE(drift_of(made_up_soak(20, 5e-3, 2), SoakedDevice::hardware_threads).has_value()) << "too short";
}

TEST(Soak, WrongBitsErrorsAndHeatAreNamed) {
  auto soak = made_up_soak(50, 5e-3, 1);
  soak.wrong_steps = 3;
  soak.wrong = {{Seconds{100}, "hardware thread 7", "0000000000000001", "0000000000000000"}};
  soak.throttled = 12, soak.corrected = 5, soak.uncorrected = 1;
  const auto reasons = said_of(soak);
  ASSERT_EQ(reasons.size(), 4u);
  EXPECT_EQ(reasons[0].grade, Grade::drain);
  EXPECT_NE(reasons[0].what.find("3 of 50000 training steps gave other bits"), std::string::npos) << reasons[0].what;
  EXPECT_NE(reasons[0].what.find("on hardware thread 7"), std::string::npos) << reasons[0].what;
  EXPECT_EQ(reasons[1].grade, Grade::drain);
  EXPECT_EQ(reasons[2].check, "memory errors");
  EXPECT_EQ(reasons[3].check, "throttling");
  soak.wrong_steps = 0, soak.throttled.reset(), soak.corrected.reset(), soak.uncorrected = 0;
  EXPECT_TRUE(said_of(soak).empty()) << "what the kernel does not count is no fault";
}

TEST(Soak, GpusAreJudgedByTheirOwnStepsAndCounters) {
  auto soak = made_up_soak(100, 5e-3, 1);
  soak.gpus = 2, soak.gpu_throttled = 0, soak.gpu_corrected = 0, soak.gpu_uncorrected = 0;
  for (std::size_t w = 0; w < soak.windows.size(); ++w) soak.windows[w].gpu_step = Seconds{w < 50 ? 0.25 : 0.28};
  auto reasons = said_of(soak);
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0].grade, Grade::drain);
  EXPECT_EQ(reasons[0].what.find("a training step of a GPU took 12 % longer"), 0u) << reasons[0].what;
  for (auto& window : soak.windows) window.gpu_step = Seconds{0.25};
  soak.gpu_throttled = 7, soak.gpu_corrected = 1, soak.gpu_uncorrected = 2;
  reasons = said_of(soak);
  ASSERT_EQ(reasons.size(), 3u);
  EXPECT_EQ(reasons[0].grade, Grade::drain);
  EXPECT_EQ(reasons[0].what.find("2 GPU memory errors that could not be corrected"), 0u) << reasons[0].what;
}

TEST(Card, TakesANodeOfEveryType) {
  auto report = made_up_report(4);
  report.nodes[2].type = report.nodes[3].type = "1 x Xeon";
  EXPECT_EQ(card_hosts(report), (std::vector<std::string>{"n0", "n2"}));
  report.nodes[0].failures = {{"disk", "full"}};
  report.nodes[2].failures = report.nodes[3].failures = {{"disk", "full"}};
  EXPECT_EQ(card_hosts(report), (std::vector<std::string>{"n1", "n2"})) << "one without failures, where there is one";
}

TEST(Card, DerivesRatesFromWhatIsKnown) {
  CardEntry entry;
  entry.model = "gpt2";
  entry.tokens_per_second = 900, entry.forecast = 1000;
  EXPECT_EQ(tokens_per_joule(entry), 0);
  EXPECT_EQ(tokens_per_billed_unit(entry), 0);
  entry.watts = 300, entry.billing = 4, entry.memory_left = {1 << 20};
  EXPECT_DOUBLE_EQ(tokens_per_joule(entry), 3);
  EXPECT_DOUBLE_EQ(tokens_per_billed_unit(entry), 810'000);
  EXPECT_NEAR(beyond_forecast(entry), -0.1, 1e-12);
  NodeReport node;
  add_card(node, {entry});
  EXPECT_EQ(node.figures, (std::vector<MeasuredFigure>{
                              {"tokens_per_second:gpt2", 900}, {"tokens_per_joule:gpt2", 3}, {"memory_headroom:gpt2", 1 << 20}}));
  EXPECT_EQ(node.card, std::vector<CardEntry>{entry});
}

/// Figures of the card are held against earlier ones as all others are.
TEST(Card, ASlowerOneIsNamed) {
  std::vector<BenchReport> history(3, made_up_report(1, 0));
  CardEntry entry;
  entry.model = "gpt2", entry.tokens_per_second = 1000;
  for (auto& report : history) add_card(report.nodes[0], {entry});
  auto today = made_up_report(1, 0);
  entry.tokens_per_second = 800;
  add_card(today.nodes[0], {entry});
  const auto reasons = judge(today, learn(history)).front().reasons;
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0].check, "tokens_per_second:gpt2");
}

}  // namespace
}  // namespace flotilla::bench
