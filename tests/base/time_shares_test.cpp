#include "flotilla/base/time_shares.hpp"

#include <gtest/gtest.h>

namespace flotilla {
namespace {

/// Time passes only where a part is told how long it took.
class Parts {
 public:
  explicit Parts(std::vector<double> weights) : shares_{Seconds{100}, std::move(weights), [this] { return now_; }} {}
  double next() { return shares_.next().value; }
  void take(double seconds) { now_ += Seconds{seconds}; }
  double left() const { return shares_.left().value; }

 private:
  Seconds now_{};
  TimeShares shares_;
};

TEST(TimeShares, FollowTheWeights) {
  Parts parts{{1, 3, 4}};
  for (const double expected : {12.5, 37.5, 50.0}) {
    EXPECT_DOUBLE_EQ(parts.next(), expected);
    parts.take(expected);
  }
  EXPECT_EQ(parts.left(), 0);
}

TEST(TimeShares, WhatAPartLeavesThoseAfterItGet) {
  Parts parts{{1, 1, 2}};
  EXPECT_DOUBLE_EQ(parts.next(), 25);
  parts.take(1);
  EXPECT_DOUBLE_EQ(parts.next(), 33);
  parts.take(0);
  EXPECT_DOUBLE_EQ(parts.next(), 99);
}

TEST(TimeShares, WhatAPartOverdrawsThoseAfterItLack) {
  Parts parts{{1, 1, 1}};
  parts.next();
  parts.take(80);
  EXPECT_DOUBLE_EQ(parts.next(), 10);
  parts.take(30);
  EXPECT_EQ(parts.next(), 0);
}

}  // namespace
}  // namespace flotilla
