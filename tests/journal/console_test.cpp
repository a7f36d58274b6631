#include "flotilla/journal/console.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace flotilla::journal {
namespace {

TEST(Console, AStepIsOneLine) {
  const StepRecord record{120, 2.34561, 12345, 0.345, 0.4123, 3e-4, 1.2, 323, 0, 0};
  EXPECT_EQ(step_line(record, 1000), "step  120/1000  loss  2.3456   345 ms  12.3k tok/s  mfu  41 %  eta 0:05:23");
}

TEST(Console, ColumnsKeepTheirPlace) {
  const auto early = step_line({1, 10.9, 950, 1.5, 0.05, 0, 0, 86400 * 2, 0, 0}, 20000);
  const auto late = step_line({20000, 0.5, 1.5e6, 0.0123, 1, 0, 0, 0, 0, 0}, 20000);
  for (const auto* word : {"loss", "tok/s", "mfu", "eta"}) EXPECT_EQ(early.find(word), late.find(word)) << early << "\n" << late;
}

TEST(Console, AStepFitsEightyColumns) {
  for (const double eta : {323.0, 86400 * 3.0, 86400 * 99.0})
    EXPECT_LE(step_line({1'000'000, 12.3456, 99949, 0.1234, 1, 3e-4, 1.2, eta, 0, 0}, 1'000'000).size(), 80u) << eta;
}

TEST(Console, NotANumberIsShownAsSuch) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto line = step_line({1, nan, nan, nan, nan, nan, nan, nan, 0, 0}, 10);
  EXPECT_NE(line.find("nan"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(Console, AStepWithoutALossHasNone) {
  StepRecord record{120, std::numeric_limits<double>::quiet_NaN(), 12345, 0.345, 0.4123, 3e-4, 0, 323, 0, 0};
  record.counted_tokens = 0;
  EXPECT_EQ(step_line(record, 1000), "step  120/1000  loss       -   345 ms  12.3k tok/s  mfu  41 %  eta 0:05:23");
}

TEST(Console, OtherEventsAreLinesToo) {
  EXPECT_EQ(evaluation_line({20, 2.5, 64, 1.234, 0, 0}, 100), "step  20/100  evaluation loss 2.5000 (64 sequences, 1.23 s)");
  EXPECT_EQ(checkpoint_line({20, std::int64_t{3} << 29, 2.1, 0, 0}, 100), "step  20/100  checkpoint saved (1.50 GiB, 2.10 s)");
  EXPECT_EQ(checkpoint_line({20, std::int64_t{3} << 29, 2.1, 0, 0, 0.012}, 100),
            "step  20/100  checkpoint saved (1.50 GiB, 2.10 s beside the steps, pause 12.0 ms)");
}

TEST(Console, EveryNthStepGetsALineWithoutATerminal) {
  std::vector<std::int64_t> shown;
  for (std::int64_t step = 41; step <= 75; ++step) {
    if (gets_line(step, 41, 75, 10, false)) shown.push_back(step);
    EXPECT_TRUE(gets_line(step, 41, 75, 10, true));
    EXPECT_TRUE(gets_line(step, 41, 75, 0, false));
  }
  EXPECT_EQ(shown, (std::vector<std::int64_t>{41, 50, 60, 70, 75}));
}

TEST(Console, RemainingTimeIsNotDisturbedByOneSlowStep) {
  const std::vector<double> recent{30.0, 0.5, 0.4, 0.6, 0.5};
  EXPECT_DOUBLE_EQ(remaining_time(recent, 100).value, 50);
  EXPECT_DOUBLE_EQ(remaining_time(recent, 0).value, 0);
  EXPECT_DOUBLE_EQ(remaining_time({}, 100).value, 0);
}

TEST(Console, ClockText) {
  EXPECT_EQ(clock_text({0}), "0:00:00");
  EXPECT_EQ(clock_text({59.6}), "0:01:00");
  EXPECT_EQ(clock_text({323}), "0:05:23");
  EXPECT_EQ(clock_text({43200}), "12:00:00");
  EXPECT_EQ(clock_text({86399.4}), "23:59:59");
  EXPECT_EQ(clock_text({3 * 86400 + 4 * 3600}), "3d 04h");
  for (const double odd : {-1.0, 1e300, HUGE_VAL, std::nan("")}) EXPECT_EQ(clock_text({odd}), "-");
}

TEST(Console, ShortNumber) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(7.4), "7");
  EXPECT_EQ(short_number(950), "950");
  EXPECT_EQ(short_number(999.6), "1.00k");
  EXPECT_EQ(short_number(1234), "1.23k");
  EXPECT_EQ(short_number(12345), "12.3k");
  EXPECT_EQ(short_number(99960), "100k");
  EXPECT_EQ(short_number(999600), "1.00M");
  EXPECT_EQ(short_number(1.25e6), "1.25M");
  EXPECT_EQ(short_number(3.5e20), "350000P");
  EXPECT_EQ(short_number(std::nan("")), "-");
}

}  // namespace
}  // namespace flotilla::journal
