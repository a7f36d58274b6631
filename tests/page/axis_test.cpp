#include "axis.hpp"

#include <limits>

namespace flotilla::page {
namespace {

std::vector<std::string> labels(const Scale& scale, int most) {
  std::vector<std::string> all;
  for (const auto& tick : scale.ticks(most)) all.push_back(tick.label);
  return all;
}
using Labels = std::vector<std::string>;

TEST(Scale, TicksAreRoundNumbersInsideTheRange) {
  EXPECT_EQ(labels(Scale{{}, std::vector{0.0, 10.0}}, 5), (Labels{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels(Scale{{}, std::vector{1234.0, 98765.0}}, 5), (Labels{"20k", "40k", "60k", "80k"}));
  EXPECT_EQ(labels(Scale{{}, std::vector{-1.0, 1.0}}, 4), (Labels{"-1", "-0.5", "0", "0.5", "1"}));
}

TEST(Scale, TimesAndSizesHaveTheUnitOfTheirRange) {
  const Scale time{{.label = "time", .quantity = Quantity::seconds}, std::vector{0.0, 0.0125}};
  EXPECT_EQ(time.title(), "time, ms");
  EXPECT_EQ(labels(time, 4), (Labels{"0", "5", "10"}));
  EXPECT_EQ(time.in_words(0.0125), "12.5 ms");
  const Scale size{{.label = "memory", .quantity = Quantity::bytes}, std::vector{0.0, 40.0 * (1 << 30)}};
  EXPECT_EQ(size.title(), "memory, GiB");
  EXPECT_EQ(labels(size, 4), (Labels{"0", "10", "20", "30", "40"}));
}

TEST(Scale, LogarithmsHaveDecadesAndBetweenFewOfThemMore) {
  const Scale wide{{.logarithmic = true}, std::vector{1e-3, 1e5}};
  EXPECT_EQ(labels(wide, 9), (Labels{"0.001", "0.01", "0.1", "1", "10", "100", "1k", "10k", "100k"}));
  EXPECT_DOUBLE_EQ(wide.place(10), 0.5);
  EXPECT_EQ(labels(Scale{{.logarithmic = true}, std::vector{1.0, 12.0}}, 6), (Labels{"1", "2", "5", "10"}));
}

TEST(Scale, OverManyPowersEachTickHasItsUnit) {
  const Scale size{{.label = "message", .quantity = Quantity::bytes, .logarithmic = true}, std::vector{8.0, 64.0 * (1 << 20)}};
  EXPECT_EQ(size.title(), "message");
  EXPECT_EQ(labels(size, 8), (Labels{"32 B", "1 KiB", "32 KiB", "1 MiB", "32 MiB"}));
  EXPECT_EQ(labels(size, 3), (Labels{"1 KiB", "1 MiB"}));
  const Scale time{{.quantity = Quantity::seconds, .logarithmic = true}, std::vector{2e-6, 3e-2}};
  EXPECT_EQ(labels(time, 6), (Labels{"10 us", "100 us", "1 ms", "10 ms"}));
}

TEST(Scale, IsLinearWhereALogarithmKnowsNoValue) { EXPECT_FALSE((Scale{{.logarithmic = true}, std::vector{0.0, 5.0}}).logarithmic()); }

TEST(Scale, OneValueNoneAndValuesThatAreNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_DOUBLE_EQ((Scale{{}, std::vector{7.0, nan}}).place(7), 0.5);
  EXPECT_DOUBLE_EQ((Scale{{.logarithmic = true}, std::vector{7.0}}).place(7), 0.5);
  EXPECT_FALSE((Scale{{}, std::vector{1.0, 2.0}}).shows(nan));
  EXPECT_GE(labels(Scale{{}, std::vector<double>{}}, 5).size(), 2u);
  EXPECT_GE(labels(Scale{{.from_zero = true}, std::vector{0.0}}, 5).size(), 2u);
}

TEST(Scale, StepsAreNice) {
  for (const auto& [least, nice] : std::vector<std::pair<double, double>>{{0.9, 1}, {1, 1}, {1.1, 2}, {2.5, 5}, {6, 10}, {0.03, 0.05}})
    EXPECT_NEAR(nice_step(least), nice, 1e-12) << least;
}

}  // namespace
}  // namespace flotilla::page
