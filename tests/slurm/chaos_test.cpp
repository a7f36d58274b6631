#include <cstdlib>
#include <functional>

#include "slurm_run.hpp"

/// Random endings, one after the other, of one run. FLOTILLA_STORM: how many (30); FLOTILLA_STORM_SEED: which.
namespace flotilla::tests {
namespace {

int number_from(const char* variable, int otherwise) {
  const char* asked = std::getenv(variable);
  return asked != nullptr ? std::atoi(asked) : otherwise;
}

struct Fault {
  std::string name;
  int often = 1;  ///< of 30
  std::function<void()> strike;
  std::function<void()> mend = [] {};  ///< once the run goes on
};

/// What processes and files of the run there are on the nodes: nothing, when it is over. Slurm's own folders are no business of a run's.
Words left_on_nodes() {
  Words left;
  for (int n = 1; n <= 6; ++n) {
    const auto node = text("n", n);
    std::istringstream found{output_of(on(node, {"sh", "-c",
                                                 "pgrep -l -x flotilla; pgrep -l srun; pgrep -l slurmstepd; find /dev/shm -mindepth 1; "
                                                 "find \"$1\" -mindepth 1 -maxdepth 1",
                                                 "-", text(FLOTILLA_CLUSTER_FOLDER, "/tmp/", node)}),
                                       true)};
    for (std::string line; std::getline(found, line);) left.push_back(node + ": " + line);
  }
  return left;
}

class Chaos : public ::testing::Test {
 protected:
  static constexpr int count_of_all = 30;

  void SetUp() override {
    if (no_cluster()) GTEST_SKIP();
    mend_cluster();
  }

  std::string any_node() { return text("n", 1 + random_() % 4); }
  /// Wherever there is one.
  void kill_a_rank() {
    Words nodes{"n1", "n2", "n3", "n4"};
    std::ranges::shuffle(nodes, random_);
    kill_ranks_of_one(nodes);
  }
  void tell_script(const BatchJob& job, const std::string& signal) {
    on_head({"scancel", "--batch", "--signal=" + signal, job.id()}, true);
  }

  /// What happens to n1 that no other node can show is the end of the batch script, which a requeue is, too.
  std::vector<Fault> blows(const BatchJob& job) {
    return {
        {"rank killed", 9, [this] { kill_a_rank(); }},
        {"asked to start again", 6, [&, this] { tell_script(job, "USR1"); }},
        {"warned", 5, [&, this] { tell_script(job, "USR2"); }},
        {"scontrol requeue", 3,
         [&] {
           on_head({"scontrol", "requeue", job.id()}, true);
         }},
        {"preemption", 3,
         [&, this] {
           on_head({"sbatch", "-Q", "-p", "urgent", "-w", any_node(), "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1"});
         }},
        {"controller restarted, rank killed", 2,
         [&, this] {
           output_of(cluster({"controller"}));
           kill_a_rank();
         }},
        {"node crash", 1,
         [] {
           output_of(cluster({"crash", "n3"}));
         },
         [] {
           output_of(cluster({"boot", "n3"}), true);
         }},
        {"cable pulled", 1,
         [] {
           output_of(cluster({"cable", "n4", "out"}));
         },
         [] {
           output_of(cluster({"cable", "n4", "in"}));
         }},
    };
  }

  /// `count` endings in random order, each kind as often as it should be.
  std::vector<Fault> deal(const BatchJob& job, int count) {
    std::vector<Fault> all;
    for (const auto& fault : blows(job)) all.insert(all.end(), static_cast<std::size_t>(fault.often), fault);
    EXPECT_EQ(all.size(), static_cast<std::size_t>(count_of_all));
    std::ranges::shuffle(all, random_);
    std::vector<Fault> dealt;
    for (int i = 0; i < count; ++i) dealt.push_back(all[static_cast<std::size_t>(i % count_of_all)]);
    return dealt;
  }

  /// Lets the newest incarnation do some steps, strikes, and waits for the next one.
  void weather(const SlurmRun& run, BatchJob& job, const Fault& fault, int number) {
    SCOPED_TRACE(text(number, ": ", fault.name));
    int before = 0;
    const auto wanted = static_cast<std::int64_t>(1 + random_() % 20);
    const bool works = job.waits_until([&] {
      before = run.incarnation();
      return job.said("ending with 0") || (before > 0 && run.steps_of(before) >= wanted);
    });
    ASSERT_TRUE(works) << job.log();
    ASSERT_FALSE(job.said("ending with 0")) << "it is over before the storm is\n" << job.log();
    const double begin = wall_clock();
    fault.strike();
    const bool again = job.waits_until([&] { return run.incarnation() > before; });
    fault.mend();
    std::cout << number << ": " << fault.name << ", step " << losses(run.directory()).size() << ", goes on after "
              << static_cast<int>(wall_clock() - begin) << " s\n"
              << std::flush;
    ASSERT_TRUE(again) << job.state() << " " << job.reason() << "\n" << job.log();
    EXPECT_LE(run.lost_steps(before), SlurmRun::save_every);
    if (job.nodes() < 4) grow(run, job);
  }

  /// A job that has lost a node gets one again when it comes back from the queue.
  void grow(const SlurmRun& run, BatchJob& job) {
    const int before = run.incarnation();
    tell_script(job, "USR2");
    ASSERT_TRUE(job.waits_until([&] { return run.incarnation() > before; })) << job.state() << " " << job.reason() << "\n" << job.log();
    EXPECT_EQ(job.nodes(), 4);
  }

  std::mt19937 random_{static_cast<unsigned>(number_from("FLOTILLA_STORM_SEED", 20261122))};
};

TEST_F(Chaos, TheRunGoesOnAsIfNothingHadHappened) {
  const int count = number_from("FLOTILLA_STORM", count_of_all);
  constexpr int endless = 1'000'000;
  const std::string plan = "pipeline = 2\ntensor = 1\n";
  const Words nodes{"--partition=preemptible", "--nodelist=n1,n2,n3,n4", "--nodes=4"};
  SlurmRun run{"storm", endless, plan};
  // Killed again and again within a few steps, it may leave no checkpoint several times in a row: no reason to give up here.
  BatchJob job{nodes, "one_partition.sh", run.environment({"FLOTILLA_TRIES=100", "FLOTILLA_DRAIN_EVERY=1"})};
  int number = 0;
  for (const auto& fault : deal(job, count)) {
    weather(run, job, fault, ++number);
    if (HasFatalFailure()) return;
  }
  // How far it has come is chance; it ends a while after the storm, and that it learns from its job file when it starts again.
  const auto steps = static_cast<std::int64_t>(losses(run.directory()).size()) + 100;
  run.end_after(steps);
  tell_script(job, "USR1");
  ASSERT_TRUE(job.completes());
  // The signal may have come after that step: then the last start had nothing left to do.
  const auto end = std::max(steps, run.metrics().starts.back().step);
  EXPECT_EQ(losses(run.directory()).size(), static_cast<std::size_t>(end));

  const SlurmRun calm{"calm", end, plan};
  fs::create_directories(calm.directory());
  fs::copy_file(run.directory() / "profile.json", calm.directory() / "profile.json");
  BatchJob unbroken{nodes, "one_partition.sh", calm.environment()};
  ASSERT_TRUE(unbroken.completes());
  run.expect_the_losses_of(losses(calm.directory()));

  EXPECT_EQ(debris(run.directory()), (Words{(run.directory() / "launches").string(), (run.directory() / "profile.json").string()}));
  // Slurm says that a job is over while its last processes go.
  const auto over = [] { return on_head({"squeue", "-h"}, true).empty() && left_on_nodes().empty(); };
  wait_until(over, patience, Milliseconds{500});
  EXPECT_EQ(on_head({"squeue", "-h"}), "") << "a job is stuck";
  EXPECT_EQ(left_on_nodes(), Words{});
}

}  // namespace
}  // namespace flotilla::tests
