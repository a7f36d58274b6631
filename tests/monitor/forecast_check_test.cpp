#include "flotilla/monitor/forecast_check.hpp"

#include <gtest/gtest.h>

namespace flotilla::monitor {
namespace {

using program::Queue;
using simulate::Activity;

/// One second a step: 0.4 forward and 0.5 backward on rank 1, which stands for ranks 1 and 3.
simulate::Forecast forecast() {
  simulate::Forecast f;
  f.iteration = {1};
  f.relative_error = 0.1;
  f.kinds.resize(2);
  f.kinds[0].ranks = {Rank{0}, Rank{2}};
  f.kinds[1].ranks = {Rank{1}, Rank{3}};
  f.timeline = {{Rank{0}, Queue::compute, Activity::optimizer, "o", 0, {0}, {1}},
                {Rank{1}, Queue::compute, Activity::forward, "f", 0, {0}, {0.4}},
                {Rank{1}, Queue::receive, Activity::activation_transfer, "r", 0, {0}, {0.9}},
                {Rank{1}, Queue::compute, Activity::backward, "b", 0, {0.5}, {1}}};
  return f;
}

std::vector<simulate::Span> measured(double forward) { return {{Rank{3}, Queue::compute, Activity::forward, "f", 0, {0}, {forward}}}; }

TEST(ForecastCheck, ComparesAfterTwentyIterationsWithoutTheFirstTwo) {
  ForecastCheck check{forecast(), Rank{3}};
  for (int i = 1; i < 20; ++i) {
    EXPECT_TRUE(check.open());
    EXPECT_FALSE(check.add(Seconds{i <= 2 ? 50.0 : 1.05}, measured(0.3)));
  }
  const auto c = check.add(Seconds{1.05}, measured(0.3));
  ASSERT_TRUE(c);
  EXPECT_EQ(std::tuple(c->forecast, c->measured, c->iterations), std::tuple(Seconds{1}, Seconds{1.05}, std::size_t{18}));
  EXPECT_TRUE(c->inside_error_bar());
  ASSERT_TRUE(c->forecast_work && c->measured_work);
  EXPECT_DOUBLE_EQ((*c->forecast_work)[Activity::forward].value, 0.4);
  EXPECT_DOUBLE_EQ((*c->forecast_work)[Activity::backward].value, 0.5);
  EXPECT_NEAR((*c->forecast_work)[Activity::bubble].value, 0.1, 1e-12);
  EXPECT_EQ((*c->forecast_work)[Activity::optimizer], Seconds{});
  EXPECT_DOUBLE_EQ((*c->measured_work)[Activity::forward].value, 0.3);
  EXPECT_DOUBLE_EQ((*c->measured_work)[Activity::bubble].value, 0.75);
  EXPECT_FALSE(check.open());
  EXPECT_FALSE(check.finish());
}

TEST(ForecastCheck, AShortRunIsComparedAtItsEnd) {
  ForecastCheck check{forecast(), Rank{0}};
  for (double took : {9.0, 9.0, 1.0, 3.0}) check.add(Seconds{took}, {});
  const auto c = check.finish();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->measured, Seconds{2});
  EXPECT_EQ(c->iterations, 2u);
  EXPECT_FALSE(c->inside_error_bar());
  EXPECT_FALSE(c->measured_work);
  EXPECT_FALSE(check.finish());
}

TEST(ForecastCheck, SaysNothingOfTwoIterationsOrWithoutAForecast) {
  ForecastCheck two{forecast(), Rank{0}}, none;
  two.add(Seconds{1}, {});
  two.add(Seconds{1}, {});
  EXPECT_FALSE(two.finish());
  EXPECT_FALSE(none.open());
  EXPECT_FALSE(none.add(Seconds{1}, {}));
  EXPECT_FALSE(none.finish());
}

}  // namespace
}  // namespace flotilla::monitor
