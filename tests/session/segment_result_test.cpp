// How a segment ended, on its way to the ranks that had no work.
#include "flotilla/session/segment_result.hpp"

#include <gtest/gtest.h>

namespace flotilla::session {
namespace {

TEST(SegmentResult, ReachesTheOthersAsItIs) {
  const SegmentResult termination{
      ExitCode::requeue, "SIGTERM on n1:\n  saved at step 7", 7, true, Seconds{3}, 6, true, checkpoint::LossScale{1 << 24, 17}};
  const auto read = segment_result_from_text(to_text(termination));
  EXPECT_EQ(read.code, termination.code);
  EXPECT_EQ(read.reason, termination.reason);
  EXPECT_EQ(read.step, 7);
  EXPECT_TRUE(read.next);
  EXPECT_EQ(read.updates, 6);
  EXPECT_TRUE(read.temporary);
  EXPECT_EQ(read.loss_scale, termination.loss_scale);
  EXPECT_EQ(read.since, Seconds{0}) << "clocks are each rank's own";
}

TEST(SegmentResult, AnEmptyReasonStaysEmpty) {
  const auto read = segment_result_from_text(to_text({}));
  EXPECT_EQ(read.code, ExitCode::done);
  EXPECT_EQ(read.reason, "");
  EXPECT_FALSE(read.next);
  EXPECT_FALSE(read.temporary);
  EXPECT_EQ(read.loss_scale, std::nullopt);
}

}  // namespace
}  // namespace flotilla::session
