#include "app/batch_job.hpp"

#include <gtest/gtest.h>

#include "app/time_left.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::app {
namespace {

using Words = std::vector<std::string>;

TEST(BatchJob, PartitionIsTheZoneUnlessAnOptionSaysOtherwise) {
  const Words environment{"SLURM_JOB_ID=7", "SLURM_JOB_PARTITION=a100", "SLURM_JOB_NODELIST=n[1-2]", "SLURMD_NODENAME=n2"};
  Job job;
  EXPECT_EQ(batch_job(job, {}).id, "");
  EXPECT_EQ(batch_job(job, {}).zone, "");
  EXPECT_FALSE(batch_job(job, {}).ends);
  EXPECT_EQ(batch_job(job, environment).id, "7");
  EXPECT_EQ(batch_job(job, environment).zone, "a100");
  job.run.zone = "eu-west";
  EXPECT_EQ(batch_job(job, environment).zone, "eu-west");
}

TEST(BatchJob, TheTimeLimitIsTheOptionsElseSlurms) {
  const Words environment{"SLURM_JOB_ID=7", "SLURM_JOB_END_TIME=4102444800"};  // 2100
  Job job;
  ASSERT_TRUE(batch_job(job, environment).ends);
  EXPECT_GT(batch_job(job, environment).ends->value, now().value + 86400);
  job.run.time_limit = {3600};
  const auto ends = batch_job(job, environment).ends->value;
  EXPECT_LE(ends, now().value + 3600);
  EXPECT_THROW(batch_job(job, Words{"SLURM_JOB_ID=7", "SLURM_JOB_END_TIME=soon"}), Error);
}

TEST(TimeLeft, TheLastStepIsTheOneAfterWhichNoOtherFits) {
  TimeLeft left{Seconds{1000}, Seconds{60}, Seconds{10}, Seconds{5}};
  EXPECT_FALSE(left.last_step({915})) << "this step, another one, the save and the slack end at 1000";
  EXPECT_TRUE(left.last_step({915.1}));
  left.ends = std::nullopt;
  EXPECT_FALSE(left.last_step({1e9}));
}

TEST(StepInHand, IsGivenUpWhereItsEndAndASaveComeAfterTheKill) {
  StepInHand hand{.began = Seconds{100}, .step = Seconds{20}, .save = Seconds{3}, .grace = Seconds{10}, .told = {}, .ends = {}};
  EXPECT_FALSE(hand.too_long({1e9})) << "nobody will be killed";
  hand.told = Seconds{115};  // killed at 125; a second is kept
  EXPECT_FALSE(hand.too_long({115})) << "120 + 3 + 1";
  hand.told = Seconds{113.9};
  EXPECT_TRUE(hand.too_long({113.9}));
  hand.told = Seconds{115};
  hand.ends = Seconds{123};
  EXPECT_TRUE(hand.too_long({115})) << "the job's time is over before";
}

TEST(StepInHand, ALongerStepThanEverGoesOnWhileASaveFits) {
  StepInHand hand{.began = Seconds{100}, .step = {}, .save = Seconds{3}, .grace = Seconds{10}, .told = Seconds{110}, .ends = {}};
  EXPECT_FALSE(hand.too_long({116}));
  EXPECT_TRUE(hand.too_long({116.1}));
}

}  // namespace
}  // namespace flotilla::app
