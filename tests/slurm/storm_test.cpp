#include <cstdlib>
#include <functional>

#include "slurm/slurm_run.hpp"

/// Random endings, one after the other, of one run. FLOTILLA_STORM: how many (4; the long variant is 30).
namespace flotilla::tests {
namespace {

int endings() {
  const char* asked = std::getenv("FLOTILLA_STORM");
  return asked != nullptr ? std::atoi(asked) : 4;
}

struct Blow {
  std::string name;
  std::function<void()> strike;
};

TEST(Storm, TheRunGoesOnAsIfNothingHadHappened) {
  if (no_cluster()) GTEST_SKIP();
  mend_cluster();
  const int count = endings(), steps = 100 + 60 * count;
  const std::string plan = "pipeline = 2\ntensor = 1\n";
  const Words nodes{"--partition=preemptible", "--nodelist=n1,n2,n3,n4", "--nodes=4"};
  const SlurmRun calm{"calm", steps, plan};
  ASSERT_TRUE((BatchJob{nodes, "one_partition.sh", calm.environment()}.completes()));

  const SlurmRun run{"storm", steps, plan};
  fs::create_directories(run.directory());
  fs::copy_file(calm.directory() / "profile.json", run.directory() / "profile.json");
  BatchJob job{nodes, "one_partition.sh", run.environment()};
  const auto batch_signal = [&](const std::string& name) { on_head({"scancel", "--batch", "--signal=" + name, job.id()}); };
  std::mt19937 random{20261122};
  const std::vector<Blow> blows{
      {"rank killed",
       [&] {
         output_of(on(text("n", 2 + random() % 3), {"pkill", "-KILL", "-x", "flotilla"}), true);
       }},
      {"asked to start again", [&] { batch_signal("USR1"); }},
      {"USR2", [&] { batch_signal("USR2"); }},
      {"scontrol requeue",
       [&] {
         on_head({"scontrol", "requeue", job.id()});
       }},
      {"controller restarted, rank killed",
       [&] {
         output_of(cluster({"controller"}));
         output_of(on("n2", {"pkill", "-KILL", "-x", "flotilla"}), true);
       }},
  };
  int struck = 0;
  for (; struck < count; ++struck) {
    int before = 0;
    const auto wanted = static_cast<std::int64_t>(1 + random() % 20);
    const bool works = job.waits_until([&] {
      before = run.incarnation();
      return before > 0 && run.steps_of(before) >= wanted;
    });
    ASSERT_TRUE(works) << job.log();
    if (job.said("ending with 0")) break;
    const auto& blow = blows[random() % blows.size()];
    SCOPED_TRACE(blow.name);
    std::cout << "storm " << struck + 1 << ": " << blow.name << " after step " << losses(run.directory()).size() << "\n" << std::flush;
    blow.strike();
    ASSERT_TRUE(job.waits_until([&] { return run.incarnation() > before; })) << job.state() << "\n" << job.log();
    EXPECT_LE(run.lost_steps(before), SlurmRun::save_every);
  }
  EXPECT_EQ(struck, count) << "the run was over before the storm";
  ASSERT_TRUE(job.completes());
  run.expect_the_losses_of(losses(calm.directory()));
}

}  // namespace
}  // namespace flotilla::tests
