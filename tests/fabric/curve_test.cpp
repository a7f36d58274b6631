#include "curve.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "flotilla/fabric/fabric.hpp"

namespace flotilla::fabric {
namespace {

constexpr int series = 4;

/// A link by latency and rate, on which no time passes but that of messages: what settled() takes of an even link.
struct Measured {
  std::vector<Bytes> sizes;
  double took = 0;
};
Measured measure(double time, double latency, double rate) {
  Seconds clock{};
  Curve curve{all_sizes(), series, Seconds{time}, [&] { return clock; }};
  Measured measured;
  while (const auto step = curve.next()) {
    const double message = latency + static_cast<double>(step->size.count) / rate;
    clock += Seconds{series * (2 * message + 3 * std::max(1.0, std::floor(step->slice.value / message)) * message)};
    curve.took({message});
    measured.sizes.push_back(step->size);
  }
  measured.took = clock.value;
  return measured;
}

TEST(Curve, TakesAllSizesAndMostOfItsTimeOnAFastLink) {
  for (const double time : {1.0, 5.0, 30.0}) {
    const auto measured = measure(time, 1e-6, 1e10);
    EXPECT_EQ(measured.sizes.size(), all_sizes().size()) << time;
    EXPECT_LE(measured.took, 1.1 * time);
    EXPECT_GE(measured.took, 0.6 * time);
  }
}

TEST(Curve, LeavesOutTheLargestWhereTheyDoNotFit) {
  const auto measured = measure(0.5, 1e-5, 1e9);
  EXPECT_LE(measured.took, 0.6);
  EXPECT_EQ(std::ranges::count(measured.sizes, Bytes{64 << 20}), 0);
  EXPECT_EQ(std::ranges::count(measured.sizes, Bytes{2 << 20}), 1);
  EXPECT_GE(measured.sizes.size(), 9u);
}

TEST(Curve, ALinkOf20MbitKeepsItsTimeAndHasALatency) {
  const auto measured = measure(6, 1e-4, 2.5e6);
  EXPECT_LE(measured.took, 7.2);
  EXPECT_EQ(measured.sizes.front(), Bytes{8});
  EXPECT_EQ(std::ranges::count(measured.sizes, Bytes{32 << 10}), 1);
}

TEST(Curve, WithoutAnyTimeTwoSizesAreMeasured) { EXPECT_EQ(measure(0, 1e-6, 1e10).sizes, (std::vector<Bytes>{{8}, {32 << 10}})); }

TEST(Curve, ThoseFirstThatTellMost) {
  const auto order = telling_first(all_sizes());
  EXPECT_EQ(order[0], Bytes{8});
  EXPECT_EQ(order[1], Bytes{32 << 10});
  EXPECT_EQ(order[2], Bytes{2 << 20});
  auto sorted = order;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, all_sizes());
  EXPECT_TRUE(telling_first({}).empty());
}

TEST(TimeOfLink, IsAnEqualPartForAsManyAsFit) {
  EXPECT_DOUBLE_EQ(time_of_link(Seconds{6}, 6, 2).value, 1);
  EXPECT_DOUBLE_EQ(time_of_link(Seconds{0.9}, 6, 2).value, 0.3) << "three fit";
  EXPECT_DOUBLE_EQ(time_of_link(Seconds{0.2}, 6, 2).value, 0.1) << "two are musts";
  EXPECT_EQ(time_of_link(Seconds{0.2}, 4, 0).value, 0) << "left out";
  EXPECT_GT(time_of_link(Seconds{0}, 2, 2).value, 0) << "a must is never left out";
}

}  // namespace
}  // namespace flotilla::fabric
