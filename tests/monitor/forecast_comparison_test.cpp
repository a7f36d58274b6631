// What was forecast beside what was measured.
#include "flotilla/monitor/forecast_comparison.hpp"

#include <gtest/gtest.h>

namespace flotilla::monitor {
namespace {

TEST(Comparison, MedianLeavesOutTheFirstTwo) {
  EXPECT_EQ(settled(std::vector<double>{9, 8, 1, 2}), (std::vector<double>{1, 2}));
  EXPECT_EQ(settled(std::vector<double>{9}), std::vector<double>{9});
  EXPECT_EQ(median({3, 1, 2}), Seconds{2});
  EXPECT_EQ(median({4, 1, 2, 3}), Seconds{2.5});
}

TEST(Comparison, SaysWhetherTheForecastHeld) {
  ForecastComparison c{Seconds{1}, Seconds{1.05}, 0.06, 18, {}, {}};
  EXPECT_TRUE(c.inside_error_bar());
  EXPECT_EQ(in_words(c), "1.00 s +- 6.0 % forecast, 1.05 s measured (median of 18 iterations):\n5.0 % above");
  c.measured = Seconds{0.9};
  EXPECT_FALSE(c.inside_error_bar());
  EXPECT_NE(in_words(c).find("10 % below"), std::string::npos) << in_words(c);
  c.forecast_work.emplace(), c.measured_work.emplace();
  (*c.forecast_work)[simulate::Activity::forward] = Seconds{0.25};
  (*c.measured_work)[simulate::Activity::bubble] = Seconds{0.5};
  EXPECT_NE(in_words(c).find("\nforward 250 / -, waiting - / 500 ms"), std::string::npos) << in_words(c);
}

TEST(Comparison, WideBarsTakeTwoLines) {
  const ForecastComparison c{Seconds{0.00259}, Seconds{0.00401}, 0.5, 4, {}, {}};
  EXPECT_EQ(in_words(c), "2.59 ms within a factor of 1.5 forecast,\n4.01 ms measured (median of 4 iterations):\n55 % above");
}

}  // namespace
}  // namespace flotilla::monitor
