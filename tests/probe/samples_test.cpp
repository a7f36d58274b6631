#include "samples.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "ping_pong.hpp"

namespace {

using flotilla::Bytes;
using flotilla::BytesPerSecond;
using flotilla::Seconds;
using flotilla::probe::median;
using flotilla::probe::relative_scatter;

TEST(Median, OddEvenAndOutliers) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({1, 1, 1, 1e9}), 1);
  EXPECT_DOUBLE_EQ(median({7}), 7);
}

TEST(Quantile, IsLinearBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(flotilla::probe::quantile({3, 1, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(flotilla::probe::quantile({3, 1, 2}, 0.75), 2.5);
  EXPECT_DOUBLE_EQ(flotilla::probe::quantile({3, 1, 2}, 1), 3);
}

TEST(MeanOfLargest, IsTheExpectedSlowestOfSoManyDevices) {
  using flotilla::probe::mean_of_largest;
  EXPECT_DOUBLE_EQ(mean_of_largest({1, 2, 3, 6}, 1), 3) << "the mean";
  EXPECT_DOUBLE_EQ(mean_of_largest({3, 1}, 2), 2.5) << "of (1,1), (1,3), (3,1), (3,3)";
  EXPECT_DOUBLE_EQ(mean_of_largest({4, 4, 4}, 8), 4);
  EXPECT_NEAR(mean_of_largest({0, 1}, 20), 1, 1e-5);
}

TEST(RelativeScatter, IsTheInterquartileRangeOverTheMedian) {
  EXPECT_DOUBLE_EQ(relative_scatter({1, 2, 3, 4, 5}), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(relative_scatter({5, 5, 5}), 0);
  EXPECT_DOUBLE_EQ(relative_scatter({8}), 0);
  EXPECT_DOUBLE_EQ(relative_scatter({0, 0, 0}), 0) << "no division by zero";
}

TEST(ScatterAboutAFit, IsRelativeToTheFitAtEachSize) {
  const flotilla::cluster::Link link{flotilla::cluster::LinkLevel::node, "a", "a", {{Bytes{0}, Seconds{1e-6}, BytesPerSecond{1e9}}}, 0};
  EXPECT_NEAR(flotilla::probe::scatter_about(link, {{Bytes{0}, Seconds{1e-6}}, {Bytes{1000000}, Seconds{1001e-6}}}), 0, 1e-12);
  EXPECT_NEAR(flotilla::probe::scatter_about(link, {{Bytes{0}, Seconds{1e-6}}, {Bytes{0}, Seconds{3e-6}}}), 0.5, 1e-12)
      << "quartiles 1.5 and 2.5 about a median of 2";
}

TEST(Means, LeaveOutTheSlowestTenthOfEachSize) {
  std::vector<flotilla::cluster::LinkSample> samples{{Bytes{8}, Seconds{5}}, {Bytes{64}, Seconds{7}}};
  for (int i = 1; i <= 10; ++i) samples.push_back({Bytes{8}, Seconds{i == 10 ? 1e6 : 5.0}});
  const auto result = flotilla::probe::means(samples);
  ASSERT_EQ(result.size(), 2u);
  EXPECT_EQ(result[0], (flotilla::cluster::LinkSample{Bytes{8}, Seconds{5}}));
  EXPECT_EQ(result[1], (flotilla::cluster::LinkSample{Bytes{64}, Seconds{7}}));
}

TEST(MessageSizes, FromEightBytesToEightMebibytes) {
  const auto sizes = flotilla::probe::message_sizes();
  EXPECT_EQ(sizes.front(), Bytes{8});
  EXPECT_EQ(sizes.back(), Bytes{8 << 20});
  for (std::size_t i = 1; i < sizes.size(); ++i) EXPECT_GT(sizes[i], sizes[i - 1]);
}

}  // namespace
