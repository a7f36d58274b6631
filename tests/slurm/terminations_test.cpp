#include <functional>

#include "slurm_run.hpp"
#include "support/tier.hpp"

/// Every way in which a job can end, on a real Slurm, each with what the script and the program do about it.
namespace flotilla::tests {
namespace {

constexpr int steps = 400;          // of the unbroken run
constexpr int endless = 1'000'000;  // steps of a run that is ended when all has happened to it
constexpr int some_steps = 25;      // of an incarnation before something happens to it: one checkpoint and a few steps more

/// Launches that end without a new checkpoint, because Slurm or MPI trips over what happens here, are no reason to give up (library_test.sh
/// shows that the scripts do).
const Words patient{"FLOTILLA_DRAIN_EVERY=1", "FLOTILLA_TRIES=100"};
/// A component for each partition, three pipeline stages.
const std::string het_plan = "pipeline = 3\ntensor = 1\n";
/// Losses of a run over three partitions that nothing happens to.
const std::map<std::int64_t, double>& unbroken();

class Terminations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (no_cluster()) GTEST_SKIP();
    mend_cluster();
  }
  static void TearDownTestSuite() { print(times()); }
  static std::vector<EndingTimes>& times() {
    static std::vector<EndingTimes> all;
    return all;
  }

  enum class Warned { yes, no };
  /// Lets the current incarnation work, does `event`, waits for the next incarnation's first step. The run must have gone on by itself,
  /// having lost no more than its warning excuses.
  void termination(const SlurmRun& run, BatchJob& job, const std::string& name, Warned warned, const std::function<void()>& event) {
    if (HasFatalFailure()) return;
    SCOPED_TRACE(name);
    int before = 0;
    const bool works = job.waits_until([&] {
      const auto now = run.latest();
      before = now.incarnation;
      return before > 0 && now.steps >= some_steps;
    });
    ASSERT_TRUE(works) << job.log();
    ASSERT_FALSE(job.said("ending with 0")) << "it was over before its time";
    EndingTimes t;
    t.termination = name;
    const double when = wall_clock();
    event();
    SlurmRun::Latest after;
    const bool again = job.waits_until([&] {
      after = run.latest();
      return after.incarnation > before && after.steps > 0;
    });
    ASSERT_TRUE(again) << job.state() << " " << job.reason() << "\n" << job.log();
    t.lost = run.lost_steps(before);
    EXPECT_LE(t.lost, warned == Warned::yes ? 1 : SlurmRun::save_every);
    const auto all = run.metrics();
    for (const auto& saved : all.checkpoints)
      if (saved.incarnation == before && saved.time >= when && warned == Warned::yes) t.to_checkpoint = saved.time - when;
    for (const auto& outcome : journal::read_outcomes(run.directory(), before)) {
      const double noticed = outcome.time - when;
      if (t.to_outcome < 0 || noticed < t.to_outcome) t.to_outcome = noticed;
    }
    for (const auto& step : all.steps)
      if (step.incarnation == after.incarnation) {
        t.to_first_step = step.time - last_launch(job.log());
        break;
      }
    times().push_back(t);
  }

  /// One that another of the default tier's stands for: before a release only.
  template <class... Arguments>
  void rare_termination(Arguments&&... arguments) {
    if (all_tier()) termination(std::forward<Arguments>(arguments)...);
  }
};

const std::map<std::int64_t, double>& unbroken() {
  static const auto found = [] {
    SlurmRun run{"unbroken", steps, het_plan};
    BatchJob job{{}, "heterogeneous.sh", run.environment()};
    EXPECT_TRUE(job.completes());
    return losses(run.directory());
  }();
  return found;
}

TEST_F(Terminations, ThreePartitionsAreOneWorldWithAMixedPlan) {
  ASSERT_EQ(unbroken().size(), static_cast<std::size_t>(steps));
  const auto profile = files::read_profile(folder() / "unbroken" / "profile.json");
  ASSERT_EQ(profile.devices.size(), 6u) << "the most that the node ranges allow";
  std::map<std::string, std::string> type_of;
  for (const auto& device : profile.devices) {
    const int number = device.host.at(1) - '0';
    EXPECT_EQ(device.zone, number <= 2 ? "a100" : number <= 4 ? "v100" : "cpu") << device.host;
    type_of[device.zone] = device.type;
  }
  EXPECT_NE(type_of["a100"], type_of["v100"]) << "each partition has measurements of its own";
  EXPECT_NE(type_of["v100"], type_of["cpu"]);
  const auto plan = journal::read_metrics(folder() / "unbroken").starts.front().plan;
  EXPECT_NE(plan.find("3 stages"), std::string::npos) << plan;
  int types = 0;
  for (const auto& [zone, type] : type_of) types += plan.find(type) != std::string::npos;
  EXPECT_GE(types, 2) << "mixed: " << plan;
}

TEST_F(Terminations, OfAHeterogeneousJob) {
  unbroken();
  const SlurmRun run{"het", endless, het_plan};
  fs::create_directories(run.directory());
  fs::copy_file(folder() / "unbroken" / "profile.json", run.directory() / "profile.json");  // the same nodes: reused
  BatchJob job{{}, "heterogeneous.sh", run.environment(patient)};

  termination(run, job, "USR2 (before the time limit)", Warned::yes, [&] { on_head({"scancel", "--batch", "--signal=USR2", job.id()}); });
  rare_termination(run, job, "preemption of one component", Warned::yes, [&] {
    on_head({"sbatch", "-Q", "-p", "urgent", "-w", job.nodes_of(2).back(), "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1"});
  });
  termination(run, job, "scontrol requeue", Warned::yes, [&] { on_head({"scontrol", "requeue", job.id()}); });
  termination(run, job, "rank killed", Warned::no, [] { kill_ranks_of_one({"n3", "n4"}); });
  std::string node;
  rare_termination(run, job, "node drained", Warned::yes, [&] {
    node = job.nodes_of(0).back();
    on_head({"scontrol", "update", "nodename=" + node, "state=drain", "reason=test"});
  });
  if (all_tier()) {
    const auto without = job.nodes_of(0);
    EXPECT_EQ(std::ranges::find(without, node), without.end()) << "without " << node;
    on_head({"scontrol", "update", "nodename=" + node, "state=resume"});
  }
  rare_termination(run, job, "controller restarted, then grown by a requeue", Warned::yes, [&] {
    output_of(cluster({"controller"}));
    on_head({"scancel", "--batch", "--signal=USR2", job.id()});
  });
  termination(run, job, "node crash", Warned::no, [&] {
    node = job.nodes_of(2).back();
    output_of(cluster({"crash", node}));
  });
  output_of(cluster({"boot", node}));
  rare_termination(run, job, "link unplugged", Warned::no, [&] {
    node = job.nodes_of(1).back();
    output_of(cluster({"cable", node, "out"}));
  });
  if (all_tier()) output_of(cluster({"cable", node, "in"}));
  ASSERT_TRUE(job.waits_until([&] { return static_cast<int>(losses(run.directory()).size()) >= steps; })) << job.log();
  job.cancel();
  run.expect_the_losses_of(unbroken());
  for (const auto& file : debris(run.directory()))
    EXPECT_EQ(file.find("/step-"), std::string::npos) << "an uncommitted checkpoint is left: " << file;
}

/// Two pipeline stages, so that four nodes, three and two can hold it.
TEST_F(Terminations, OfAPlainJobThatKeepsItsNodes) {
  unbroken();
  const SlurmRun run{"plain", endless, "pipeline = 2\ntensor = 1\n"};
  BatchJob job{{"--partition=preemptible", "--nodelist=n1,n2,n3,n4", "--nodes=4"}, "one_partition.sh", run.environment(patient)};

  rare_termination(run, job, "rank killed, plain job", Warned::no, [] { kill_ranks_of_one({"n2"}); });
  rare_termination(run, job, "asked to start again", Warned::yes, [&] { on_head({"scancel", "--batch", "--signal=USR1", job.id()}); });
  termination(run, job, "allocation shrunk", Warned::no, [&] { on_head({"scontrol", "update", "jobid=" + job.id(), "NumNodes=3"}); });
  EXPECT_EQ(job.restarts(), 0) << "all of it in one allocation";
  rare_termination(run, job, "node crash, plain job", Warned::no, [&] { output_of(cluster({"crash", "n2"})); });
  if (all_tier()) output_of(cluster({"boot", "n2"}));
  ASSERT_TRUE(job.waits_until([&] { return static_cast<int>(losses(run.directory()).size()) >= steps; })) << job.log();
  job.cancel();
  run.expect_the_losses_of(unbroken());
}

/// Slurm 22.05 gives a running job the nodes of another one that has no step, where neither holds gres: so no whole nodes here.
TEST_F(Terminations, OfARunningJobThatGrows) {
  unbroken();
  const SlurmRun run{"growing", endless, "pipeline = 2\ntensor = 1\n"};
  BatchJob job{{"--partition=preemptible", "--nodelist=n1,n2", "--nodes=2", "--oversubscribe", "--cpus-per-task=4"},
               "one_partition.sh",
               run.environment(patient)};
  termination(run, job, "allocation grown", Warned::yes, [&] {
    const auto donor = output_of(on("head", {"sh", "-c",
                                             "salloc --no-shell --partition=preemptible --nodelist=n3,n4 --nodes=2 --cpus-per-task=4 "
                                             "--dependency=expand:\"$1\" 2>&1 | sed -n 's/.*Granted job allocation //p'",
                                             "-", job.id()}));
    on_head({"scontrol", "update", "jobid=" + donor, "NumNodes=0"});
    EXPECT_TRUE(until([&] { return job.nodes() == 4; }, Milliseconds{200})) << job.nodes();
    on_head({"scancel", "--batch", "--signal=USR1", job.id()});
  });
  EXPECT_EQ(job.restarts(), 0) << "in one allocation";
  ASSERT_TRUE(job.waits_until([&] { return static_cast<int>(losses(run.directory()).size()) >= steps; })) << job.log();
  job.cancel();
  EXPECT_TRUE(job.said("launching on n1 n2 n3 n4")) << job.log();
  EXPECT_EQ(files::read_profile(run.directory() / "profile.json").devices.size(), 4u);
  run.expect_the_losses_of(unbroken());
}

TEST_F(Terminations, TheTimeLimit) {
  unbroken();
  const SlurmRun run{"limit", endless, "pipeline = 2\ntensor = 1\n"};
  // It looks at the time half a minute after its start, or at its first step where that comes later: minutes before Slurm would end it.
  BatchJob job{{"--time=6", "--signal=B:USR2@5"}, "one_partition.sh", run.environment({"FLOTILLA_RUN_STOP_SLACK=330s"})};
  ASSERT_TRUE(until([&] { return job.said("saved: back to the queue"); }, Milliseconds{300})) << job.log();
  // Slurm's warning may come half a minute early (asked for 5 s, seen 30): then it, and not the run's own look at the time, is first.
  EXPECT_TRUE(job.said("the job's time is nearly over: saved at step") || job.said("warned by Slurm")) << job.log();
  ASSERT_TRUE(job.waits_until([&] { return run.incarnation() == 2 && run.steps_of(2) > 0; })) << job.log();
  EXPECT_EQ(run.lost_steps(1), 0);
}

}  // namespace
}  // namespace flotilla::tests
