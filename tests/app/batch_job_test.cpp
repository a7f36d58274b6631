#include "app/common/batch_job.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace flotilla::app
