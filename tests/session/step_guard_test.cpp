// The guard gives up a step that the process would not live to see the end of, and no other.
#include "step_guard.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "flotilla/base/clock.hpp"

namespace flotilla::session {
namespace {

/// Signals and the watch, as a test says.
struct Fake {
  std::atomic<bool> urgent = false, stop = false;
  std::atomic<int> looks = 0;
  std::atomic<std::int64_t> given_up = -1;

  StepGuard::Surroundings around() {
    return {[this] { ++looks; }, [this] { return urgent ? std::optional{now() - Seconds{100}} : std::nullopt; },
            [this] { return stop.load(); }, [this](std::int64_t step) { given_up = step; }};
  }
  /// Until the guard has looked twice more: once at least after what was said before.
  void wait() const {
    for (const int before = looks; looks < before + 2;) std::this_thread::yield();
  }
  void wait_for_giving_up() const {
    while (given_up < 0) std::this_thread::yield();
  }
};

const TimeLeft known{{}, {}, Seconds{0.1}, Seconds{0.1}};

TEST(StepGuard, GivesUpAStepAfterAnUrgentSignal) {
  Fake fake;
  StepGuard guard{fake.around(), true, Seconds{30}, std::nullopt};
  guard.begin(7, known, false);
  fake.wait();
  EXPECT_EQ(fake.given_up, -1);
  fake.urgent = true;  // the kill was due 70 s ago
  fake.wait_for_giving_up();
  EXPECT_EQ(fake.given_up, 7);
}

TEST(StepGuard, BetweenStepsThereIsNothingToGiveUp) {
  Fake fake;
  fake.urgent = true;
  StepGuard guard{fake.around(), true, Seconds{30}, std::nullopt};
  fake.wait();
  EXPECT_EQ(fake.given_up, -1);
  guard.begin(3, known, false);
  fake.wait_for_giving_up();
  EXPECT_EQ(fake.given_up, 3);
  guard.end();
  fake.given_up = -1;
  fake.wait();
  fake.wait();
  EXPECT_EQ(fake.given_up, -1);
}

TEST(StepGuard, TheOthersPassSignalsOnAndDecideNothing) {
  Fake fake;
  fake.urgent = true;
  StepGuard guard{fake.around(), false, Seconds{30}, std::nullopt};
  guard.begin(7, known, false);
  fake.wait();
  EXPECT_EQ(fake.given_up, -1);
}

TEST(StepGuard, TheJobsEndCountsOnceAStopIsWanted) {
  Fake fake;
  StepGuard guard{fake.around(), true, Seconds{30}, now() - Seconds{1}};
  guard.begin(7, known, false);
  fake.wait();
  EXPECT_EQ(fake.given_up, -1) << "nobody has asked for a stop: the run may be given more time";
  fake.stop = true;
  fake.wait_for_giving_up();
  EXPECT_EQ(fake.given_up, 7);
}

TEST(StepGuard, AStepThatIsToBeTheLastKnowsTheJobsEnd) {
  Fake fake;
  StepGuard guard{fake.around(), true, Seconds{30}, now() - Seconds{1}};
  guard.begin(9, known, true);
  fake.wait_for_giving_up();
  EXPECT_EQ(fake.given_up, 9);
}

}  // namespace
}  // namespace flotilla::session
