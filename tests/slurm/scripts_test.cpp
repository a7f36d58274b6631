#include "slurm/slurm_run.hpp"

/// The job scripts that the endings do not use, each through what it is for; and a step that is longer than the time to the kill.
namespace flotilla::tests {
namespace {

constexpr int endless = 1'000'000;
const std::string two_stages = "pipeline = 2\ntensor = 1\n";

class Scripts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (no_cluster()) GTEST_SKIP();
    mend_cluster();
  }
  /// Somebody more urgent needs one of the job's nodes for a second.
  static void preempt(const BatchJob& job) {
    on_head({"sbatch", "-Q", "-p", "urgent", "-w", job.nodes_of(0).front(), "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1"});
  }
  static std::string state_of(const std::string& job) { return on_head({"squeue", "-h", "-t", "all", "-j", job, "-o", "%t"}, true); }
  static bool goes_on(const SlurmRun& run, BatchJob& job, int after) {
    return job.waits_until([&] { return run.incarnation() > after && run.steps_of(run.incarnation()) > 2; });
  }
};

TEST_F(Scripts, APreemptedRunComesBackByItself) {
  SlurmRun run{"preemptible", endless, two_stages};
  BatchJob job{{}, "preemptible.sh", run.environment({"FLOTILLA_SAVE_EVERY=1s"})};
  ASSERT_TRUE(goes_on(run, job, 0)) << job.log();
  const auto node = on_head({"squeue", "-h", "-j", job.id(), "-o", "%N"});
  EXPECT_EQ(job.nodes(), 2) << node;
  preempt(job);
  ASSERT_TRUE(goes_on(run, job, 1)) << job.log();
  EXPECT_TRUE(job.said("told to end")) << job.log();
  EXPECT_LE(run.lost_steps(1), 1);
  EXPECT_EQ(job.restarts(), 1);
  run.end_after(static_cast<std::int64_t>(losses(run.directory()).size()) + 100);
  preempt(job);
  ASSERT_TRUE(job.completes());
  EXPECT_EQ(debris(run.directory()), Words{(run.directory() / "profile.json").string()});
}

TEST_F(Scripts, AChainOfJobsIsOneRun) {
  SlurmRun run{"chain", endless, "tensor = 1\n"};  // for one node, too: the other may still be ending the job before
  BatchJob first{{}, "chain.sh", run.environment({"FLOTILLA_LINKS=3"})};
  const auto after = [](const std::string& job) { return std::to_string(std::stoi(job) + 1); };  // nobody else sends jobs here
  ASSERT_TRUE(goes_on(run, first, 0)) << first.log();
  const auto second = after(first.id()), third = after(second);
  EXPECT_EQ(state_of(second), "PD") << "it waits for the first one's end";
  on_head({"scancel", "--batch", "--signal=USR2", first.id()});
  ASSERT_TRUE(goes_on(run, first, 1)) << first.log();
  EXPECT_TRUE(first.said("saved; job " + second + " goes on")) << first.log();
  EXPECT_EQ(state_of(first.id()), "F");
  EXPECT_EQ(state_of(second), "R");
  EXPECT_EQ(state_of(third), "PD");
  EXPECT_EQ(run.lost_steps(1), 0);

  run.end_after(static_cast<std::int64_t>(losses(run.directory()).size()) + 50);
  on_head({"scancel", "--batch", "--signal=USR2", second});
  const auto fourth = after(third);
  ASSERT_TRUE(until([&] { return state_of(third) == "CD"; }, Milliseconds{200})) << state_of(third);
  ASSERT_TRUE(until([&] { return state_of(fourth) == "CA"; }, Milliseconds{200})) << "the run is done: nobody waits";
  EXPECT_EQ(run.incarnation(), 3);
}

/// Each node keeps its part in memory of its own, in a folder that the job's number and the host's name are in.
TEST_F(Scripts, CheckpointsOnTheNodesOutliveARank) {
  SlurmRun run{"local", endless, two_stages};
  BatchJob job{{"--partition=preemptible", "--nodelist=n3,n4", "--nodes=2"},
               "one_partition.sh",
               run.environment({"FLOTILLA_CHECKPOINT_LOCAL=/dev/shm/flotilla-%j-%N", "FLOTILLA_TRIES=100"})};
  const auto on_nodes = [&](int incarnation) {
    const auto all = run.metrics().checkpoints;
    return std::ranges::count_if(all, [&](const auto& saved) { return saved.incarnation == incarnation && !saved.in_run_directory(); });
  };
  ASSERT_TRUE(job.waits_until([&] { return on_nodes(1) > 1; })) << job.log();
  const auto all = run.metrics().checkpoints;
  const auto& saved = *std::ranges::find_if(all, [](const auto& one) { return !one.in_run_directory(); });
  EXPECT_EQ(saved.hosts, "n3, n4");
  EXPECT_EQ(saved.local.find(text("/dev/shm/flotilla-", job.id(), "-n")), 0u) << saved.local;
  for (const std::string node : {"n3", "n4"})
    EXPECT_NE(output_of(on(node, {"ls", "/dev/shm"})).find(text("flotilla-", job.id(), "-", node)), std::string::npos);
  kill_ranks_of_one({"n4"});
  ASSERT_TRUE(job.waits_until([&] { return on_nodes(run.incarnation()) > 0 && run.incarnation() > 1; })) << job.log();
  EXPECT_LE(run.lost_steps(1), SlurmRun::save_every);
  run.end_after(static_cast<std::int64_t>(losses(run.directory()).size()) + 50);
  on_head({"scancel", "--batch", "--signal=USR1", job.id()});
  ASSERT_TRUE(job.completes()) << job.log();
  for (const std::string node : {"n3", "n4"})
    EXPECT_EQ(output_of(on(node, {"find", "/dev/shm", "-path", "*/flotilla-*", "-type", "f"})), "") << "what was drained is removed";
  EXPECT_EQ(losses(run.directory()).rbegin()->first, static_cast<std::int64_t>(losses(run.directory()).size()));
}

TEST_F(Scripts, TheGraceIsSlurmsKillWait) {
  const std::string ask = ". " FLOTILLA_SCRIPTS_FOLDER "/flotilla.sh; flotilla_kill_wait";
  EXPECT_EQ(on_head({"bash", "-c", ask}), "8");
}

/// What a crash may leave of Slurm's PMIx plugin lies on n2, in the way of this job's steps. srun names no node ("task 1 launch failed").
TEST_F(Scripts, ANodeOnWhichLaunchesFailIsLeftOut) {
  SlurmRun run{"left-out", endless, two_stages};
  BatchJob job{{"--partition=preemptible", "--nodes=2", "--hold"},
               "one_partition.sh",
               run.environment({"FLOTILLA_PAUSE=1", "FLOTILLA_ON_NO_PLAN=requeue", "FLOTILLA_SKIP_STEPS=0"})};
  const auto leftover = [&](int step) {
    return fs::path{FLOTILLA_CLUSTER_FOLDER} / "spool/n2" / text("stepd.slurm.pmix.", job.id(), ".", step);
  };
  for (int step = 0; step < 10; ++step) fs::create_directories(leftover(step) / "in-use");
  on_head({"scontrol", "release", job.id()});
  EXPECT_TRUE(goes_on(run, job, 0)) << job.log();
  for (int step = 0; step < 10; ++step) fs::remove_all(leftover(step));
  EXPECT_TRUE(job.said("the launch failed on n2:")) << job.log();
  EXPECT_TRUE(job.said("launching on n1,")) << "n1 alone cannot hold both stages";
  EXPECT_TRUE(job.said("job " + job.id() + " will start without n2")) << job.log();
  EXPECT_NE(on_head({"scontrol", "show", "job", job.id()}).find("ExcNodeList=n2"), std::string::npos);
  EXPECT_EQ(std::ranges::count(job.nodes_of(0), "n2"), 0);
}

/// The run believes that it lives as long after TERM as it needs to keep in hand, so that in whatever phase of a step TERM comes there is
/// no time for the rest of it; Slurm waits longer, so that a save by slow nodes comes in time.
TEST_F(Scripts, AStepThatTheGraceIsTooShortForIsGivenUp) {
  const SlurmRun run{"grace", endless, two_stages, 2048};
  BatchJob job{{}, "preemptible.sh", run.environment({"FLOTILLA_SAVE_EVERY=1h", "FLOTILLA_RUN_GRACE=500ms"})};
  ASSERT_TRUE(job.waits_until([&] { return run.steps_of(1) > 0; })) << job.log();
  const double when = wall_clock();
  preempt(job);
  ASSERT_TRUE(job.waits_until([&] { return run.incarnation() > 1; })) << job.log();
  EXPECT_TRUE(job.said("no time for step")) << job.log();
  EXPECT_EQ(run.lost_steps(1), 0) << "the step that was over is kept";
  EndingTimes times{"preemption, a step longer than the grace"};
  const auto all = run.metrics();
  for (const auto& saved : all.checkpoints)
    if (saved.incarnation == 1 && saved.time >= when) times.to_checkpoint = saved.time - when;
  std::cout << "a step took " << all.steps.front().step_seconds << " s\n";
  print({times});
  job.cancel();
}

}  // namespace
}  // namespace flotilla::tests
