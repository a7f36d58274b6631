#include "flotilla/train/loss_scale.hpp"

#include <gtest/gtest.h>

namespace flotilla::train {
namespace {

TEST(LossScale, DoublesAfterAnIntervalWithoutOverflow) {
  LossScale scale{1024};
  for (int update = 1; update < loss_scale_interval; ++update) {
    scale = after_update(scale);
    ASSERT_EQ(scale.value, 1024);
    ASSERT_EQ(scale.good_steps, update);
  }
  EXPECT_EQ(after_update(scale), (LossScale{2048, 0}));
}

TEST(LossScale, AnOverflowHalvesAndBeginsAnew) { EXPECT_EQ(after_overflow({1024, 1999}), (LossScale{512, 0})); }

TEST(LossScale, StaysWithinItsLimits) {
  EXPECT_EQ(after_overflow({smallest_loss_scale, 5}).value, smallest_loss_scale);
  EXPECT_EQ(after_update({largest_loss_scale, loss_scale_interval - 1}).value, largest_loss_scale);
}

}  // namespace
}  // namespace flotilla::train
