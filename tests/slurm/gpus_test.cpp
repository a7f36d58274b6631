#include "slurm_run.hpp"

/// A heterogeneous job of two partitions with unlike GPUs, played by stand-ins (tests/standin), and one of CPUs.
namespace flotilla::tests {
namespace {

constexpr int endless = 1'000'000;
constexpr int some_steps = 21;  // before a node is lost: one checkpoint and a step more
constexpr int more_steps = 60;  // than were done by then
/// Rounding of fp32 on other devices, in other orders.
constexpr double apart = 1e-4;
/// With two CPUs among six devices, and one among four, some stage has both its replicas on GPUs: a group for NCCL.
const std::string all_six = "data = 2\npipeline = 3\ntensor = 1\n", four = "data = 2\npipeline = 2\ntensor = 1\n";

/// What ranks of a partition load before they start. Their communicators meet on the disk that all nodes see.
std::string loads(const std::string& gpu) {
  return text("export LD_LIBRARY_PATH=" FLOTILLA_STANDIN "_nccl:" FLOTILLA_STANDIN " FLOTILLA_STANDIN_DEVICES=", gpu,
              " FLOTILLA_STANDIN_KERNELS=" FLOTILLA_STANDIN "/libstandin_kernels.so FLOTILLA_GPU_KERNELS=" FLOTILLA_STANDIN
              "/libstandin_kernels.so FLOTILLA_STANDIN_NCCL_FOLDER=" FLOTILLA_CLUSTER_FOLDER "/disk");
}

/// NCCL always: what stand-ins measure says nothing of what is fast.
Words site() {
  return {"FLOTILLA_SETUP_0=" + loads("a100"), "FLOTILLA_SETUP_1=" + loads("t4"), "FLOTILLA_COMM_TRANSPORT=nccl", "FLOTILLA_DRAIN_EVERY=0"};
}

void drain(const std::string& node) { on_head({"scontrol", "update", "nodename=" + node, "state=drain", "reason=test"}); }

/// The same samples on one CPU outside of Slurm.
std::map<std::int64_t, double> on_one_cpu(std::int64_t steps) {
  const auto there = folder() / "one-cpu";
  const auto command = Words{FLOTILLA_BINARY, "train"} + options(there, 1) +
                       Words{text("--training.steps=", steps), "--training.learning-rate=3e-4", "--training.minimum-learning-rate=3e-4"};
  const auto ended = run(command);
  EXPECT_EQ(ended.code, 0) << ended.err;
  return losses(there);
}

/// Launches whose forecast has NCCL between GPUs; NCCL joined all of them, or a line would say that some go on over MPI.
std::ptrdiff_t launches_over_nccl(const BatchJob& job) {
  const auto story = job.story();
  std::ptrdiff_t count = 0;
  for (auto at = story.find("between GPUs  NCCL for "); at != std::string::npos; at = story.find("between GPUs  NCCL for ", at + 1))
    ++count;
  EXPECT_EQ(story.find("goes on over MPI"), std::string::npos) << "a group failed its proof\n" << story;
  return count;
}

/// Device types of a run's profile by partition; each partition has one.
std::map<std::string, std::string> types_of(const SlurmRun& run) {
  std::map<std::string, std::string> types;
  for (const auto& device : files::read_profile(run.directory() / "profile.json").devices) {
    const auto [known, fresh] = types.emplace(device.zone, device.type);
    EXPECT_TRUE(fresh || known->second == device.type) << device.host;
  }
  return types;
}

class Gpus : public ::testing::Test {
 protected:
  void SetUp() override {
    if (no_cluster()) GTEST_SKIP();
    mend_cluster();
  }
  void TearDown() override {
    if (!IsSkipped()) mend_cluster();
  }
};

/// Two nodes of each kind train together. The ranks of one are killed while it and another are drained, so that the requeued job comes back
/// on one, two and one.
TEST_F(Gpus, OfTwoKindsAndCpusAreOneWorldThatComesBackOnAnotherMix) {
  SlurmRun run{"gpus", endless, all_six, global_batch};
  BatchJob job{{}, "heterogeneous.sh", run.environment(site())};
  ASSERT_TRUE(job.waits_until([&] { return job.over() || run.steps_of(1) >= some_steps; })) << job.log();
  ASSERT_FALSE(job.over()) << job.log();
  const auto types = types_of(run);
  EXPECT_EQ(types.at("a100"), "A100-80");
  EXPECT_EQ(types.at("v100"), "T4");
  EXPECT_EQ(types.at("cpu").rfind("cpu:", 0), 0u) << types.at("cpu");

  drain("n2"), drain("n6");
  run.plan_by(four);
  const auto steps = run.steps_of(1) + more_steps;  // more than it does until the blow falls
  run.end_after(steps);
  kill_ranks_of_one({"n2"});
  ASSERT_TRUE(job.completes());
  const auto all = run.metrics();
  ASSERT_EQ(all.starts.size(), 2u) << job.story();
  EXPECT_EQ(all.starts[0].ranks, 6);
  EXPECT_EQ(all.starts[1].ranks, 4);
  EXPECT_GE(all.starts[1].step, SlurmRun::save_every);
  EXPECT_EQ(launches_over_nccl(job), 2) << job.story();
  for (const auto& start : all.starts)
    for (const auto& [zone, type] : types) EXPECT_NE(start.plan.find(type), std::string::npos) << type << " works in " << start.plan;
  run.expect_the_losses_of(on_one_cpu(steps), apart);
}

}  // namespace
}  // namespace flotilla::tests
