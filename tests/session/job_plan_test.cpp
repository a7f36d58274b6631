// Plans from elsewhere, for a job: a file's, and a checkpoint's.
#include "flotilla/session/job_plan.hpp"

#include <gtest/gtest.h>

#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "simulate/cluster_fixture.hpp"
#include "support/refusal.hpp"

namespace flotilla::session {
namespace {

search::PlanRequest job() {
  search::PlanRequest job;
  job.model = model::built_in("gpt2-tiny");
  job.length = 16;
  job.global_batch = 8;
  return job;
}

cluster::Profile two_hosts() {
  auto profile = fixture::uniform_cluster(2, 1);
  profile.software = "software 1";
  profile.model_fingerprint = "model 1";
  return profile;
}

plan::Plan two_stages(int length = 16) { return plan::even_plan(job().model, length, 8, Precision::fp32, 1, 2, 1, 2); }

plan::Plan taken(const plan::Plan& plan, const search::PlanRequest& request = job()) {
  return for_job(plan, request, two_hosts(), 2, "plan.json");
}

TEST(JobPlan, IsBoundAndDropsOutAsTheJobSays) {
  auto request = job();
  request.model.dropout = 0.25;
  const auto plan = taken(two_stages(), request);
  EXPECT_EQ(plan.model.dropout, 0.25);
  EXPECT_EQ(plan.stages[1].replicas[0].devices, std::vector{Rank{1}});
  EXPECT_EQ(plan.stages[1].replicas[0].device_type, "slow");
}

TEST(JobPlan, AnotherJobsIsRefused) {
  EXPECT_NO_THROW(taken(two_stages()));
  const auto refused = [](const plan::Plan& plan, const search::PlanRequest& request) {
    return tests::refusal([&] { taken(plan, request); });
  };
  tests::expect_contains(refused(two_stages(8), job()), "plan.json: length is 8, the job says 16");
  auto request = job();
  request.precision = Precision::bf16;
  tests::expect_contains(refused(two_stages(), request), "precision");
  request = job();
  request.global_batch = 4;
  tests::expect_contains(refused(two_stages(), request), "global_batch");
  request = job();
  request.model = model::built_in("gpt2-mini");
  tests::expect_contains(refused(two_stages(), request), "model");
}

TEST(JobPlan, ThatNeedsMoreRanksIsRefused) {
  const auto four = plan::even_plan(job().model, 16, 8, Precision::fp32, 2, 2, 1, 2);
  tests::expect_contains(tests::refusal(ErrorKind::no_plan, [&] { taken(four); }), "needs 4 ranks");
}

/// A checkpoint that has the plan and the profile that it was made with.
struct Checkpoint {
  checkpoint::Loaded saved;
  probe::Discovery here;

  Checkpoint() {
    const auto profile = two_hosts();
    saved.directory = "run/step-3";
    saved.manifest.step = 3;
    saved.manifest.plan = files::plan_to_json(plan::even_plan(job().model, 16, 8, Precision::fp32, 1, 2, 1, 2));
    saved.manifest.profile = files::profile_to_json(profile);
    here.devices = profile.devices;
    here.software = profile.software;
    here.model_fingerprint = profile.model_fingerprint;
  }
};

TEST(KeptPlan, IsTheCheckpointsWhileNothingHasChanged) {
  const Checkpoint before;
  const auto kept = kept_plan(before.saved, job(), before.here);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->plan, files::plan_from_json(before.saved.manifest.plan, "plan"));
  EXPECT_EQ(kept->profile, two_hosts());
  EXPECT_EQ(kept->step, 3);
}

TEST(KeptPlan, IsNoneWhereDevicesSoftwareOrModelHaveChanged) {
  Checkpoint before;
  before.here.devices.pop_back();
  EXPECT_FALSE(kept_plan(before.saved, job(), before.here));
  before = {};
  before.here.software = "software 2";
  EXPECT_FALSE(kept_plan(before.saved, job(), before.here));
  before = {};
  before.here.model_fingerprint = "model 2";
  EXPECT_FALSE(kept_plan(before.saved, job(), before.here));
}

TEST(KeptPlan, IsNoneWhereTheJobNowSaysOtherwise) {
  const Checkpoint before;
  auto request = job();
  request.precision = Precision::bf16;
  EXPECT_FALSE(kept_plan(before.saved, request, before.here));
  request = job();
  request.constraints.pipeline = 1;
  EXPECT_FALSE(kept_plan(before.saved, request, before.here));
  request.constraints.pipeline = 2;
  EXPECT_TRUE(kept_plan(before.saved, request, before.here));
}

TEST(KeptPlan, OfAnotherTrainingIsRefused) {
  const Checkpoint before;
  auto request = job();
  request.length = 8;
  tests::expect_contains(tests::refusal([&] { kept_plan(before.saved, request, before.here); }), "manifest.json: /plan: length is 16");
  request = job();
  request.model = model::built_in("gpt2-mini");
  tests::expect_contains(tests::refusal([&] { kept_plan(before.saved, request, before.here); }), "model is gpt2-tiny");
}

TEST(KeptPlan, IsNoneWhereTheCheckpointHasNone) {
  Checkpoint before;
  before.saved.manifest.plan.clear();
  EXPECT_FALSE(kept_plan(before.saved, job(), before.here));
}

TEST(KeptPlan, DamagedDocumentsAreRefusedByName) {
  Checkpoint before;
  before.saved.manifest.plan = "{}";
  tests::expect_contains(tests::refusal([&] { kept_plan(before.saved, job(), before.here); }), "run/step-3/manifest.json: /plan");
  before.saved.manifest.profile = "{}";
  tests::expect_contains(tests::refusal([&] { kept_plan(before.saved, job(), before.here); }), "run/step-3/manifest.json: /profile");
}

}  // namespace
}  // namespace flotilla::session
