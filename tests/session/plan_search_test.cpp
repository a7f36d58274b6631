// A search beside the steps: one at a time, its answer taken once, ended when the run ends.
#include "plan_search.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>

namespace flotilla::session {
namespace {

std::optional<NextPlan> wait_for_answer(PlanSearch& search) {
  for (;;)
    if (auto answer = search.answer(); answer || !search.under_way())
      return answer;
    else
      std::this_thread::yield();
}

TEST(PlanSearch, WithoutAPlannerNothingIsSearched) {
  PlanSearch search{{}};
  search.begin({}, 10);
  EXPECT_FALSE(search.under_way());
  EXPECT_FALSE(search.answer());
}

TEST(PlanSearch, KnowsWhatIsSlowAndHowManyStepsAreLeft) {
  PlanSearch search{[](const std::vector<monitor::Slowness>& slow, std::int64_t left, const std::stop_token&) {
    return NextPlan{{}, std::to_string(slow.size()) + " slow, " + std::to_string(left) + " left", ""};
  }};
  search.begin(std::vector<monitor::Slowness>(1), 12);
  const auto answer = wait_for_answer(search);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->reason, "1 slow, 12 left");
  EXPECT_FALSE(search.under_way());
  EXPECT_FALSE(search.answer()) << "it is taken once";
}

TEST(PlanSearch, OneAtATimeAndNoAnswerBeforeItIsOver) {
  std::binary_semaphore go{0};
  std::atomic<int> begun = 0;
  PlanSearch search{[&](const std::vector<monitor::Slowness>&, std::int64_t, const std::stop_token&) -> std::optional<NextPlan> {
    ++begun;
    go.acquire();
    return std::nullopt;
  }};
  search.begin({}, 1);
  search.begin({}, 1);
  EXPECT_TRUE(search.under_way());
  EXPECT_FALSE(search.answer());
  EXPECT_TRUE(search.under_way()) << "asking does not end it";
  go.release();
  EXPECT_FALSE(wait_for_answer(search)) << "nothing better was found";
  EXPECT_EQ(begun, 1);
  search.begin({}, 1);
  go.release();
  wait_for_answer(search);
  EXPECT_EQ(begun, 2);
}

TEST(PlanSearch, EndsWhenTheRunDoes) {
  std::atomic<bool> stopped = false;
  {
    PlanSearch search{[&](const std::vector<monitor::Slowness>&, std::int64_t, const std::stop_token& stop) -> std::optional<NextPlan> {
      while (!stop.stop_requested()) std::this_thread::yield();
      stopped = true;
      return std::nullopt;
    }};
    search.begin({}, 1);
  }
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace flotilla::session
