#include "flotilla/slurm/job_billing.hpp"

#include <gtest/gtest.h>

#include "support/refusal.hpp"

namespace flotilla::slurm {
namespace {

TEST(JobBilling, IsSharedByTheNodes) {
  EXPECT_EQ(billing_of_a_node("JobId=7 JobName=a NumNodes=2 NumCPUs=8 TRES=cpu=8,mem=2G,node=2,billing=96 Partition=gpu\n"), 48);
  EXPECT_EQ(billing_of_a_node("JobId=7 NumNodes=1-1 ReqTRES=cpu=1,billing=3 AllocTRES=cpu=2,node=1,billing=5\n"), 5)
      << "what was got, not asked for";
}

TEST(JobBilling, ASiteMayBillNothing) {
  EXPECT_FALSE(billing_of_a_node("JobId=7 NumNodes=2 TRES=cpu=8,node=2\n").has_value());
  EXPECT_FALSE(billing_of_a_node("JobId=7 NumNodes=2 TRES=cpu=8,node=2,billing=0\n").has_value());
}

TEST(JobBilling, AnAnswerOfAnotherKindIsRefused) {
  tests::expect_refused([] { billing_of_a_node(""); }, "scontrol show job");
  tests::expect_refused([] { billing_of_a_node("slurm_load_jobs error: Invalid job id specified"); }, "scontrol show job");
}

}  // namespace
}  // namespace flotilla::slurm
