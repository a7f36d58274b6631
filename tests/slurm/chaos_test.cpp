#include <cstdlib>

#include "storm_faults.hpp"
#include "support/tier.hpp"

/// Random faults, one after the other, in one run that is never sent again by hand. README.md beside this file has its variables.
namespace flotilla::tests {
namespace {

/// What processes and files of the run there are on the nodes: nothing, when it is over. The folder of Slurm's PMIx
/// plugin stays behind where its slurmstepd was killed -9, and is no business of a run's.
Words left_on_nodes() {
  Words left;
  for (int n = 1; n <= 6; ++n) {
    const auto node = text("n", n);
    std::istringstream found{output_of(on(node, {"sh", "-c",
                                                 "pgrep -l -x flotilla; pgrep -l srun; pgrep -l slurmstepd; find /dev/shm -mindepth 1; "
                                                 "find \"$1\" -mindepth 1 -maxdepth 1 ! -name 'spmix_appdir_*'",
                                                 "-", text(FLOTILLA_CLUSTER_FOLDER, "/tmp/", node)}),
                                       true)};
    for (std::string line; std::getline(found, line);) left.push_back(node + ": " + line);
  }
  return left;
}

/// What one fault has cost.
struct Damage {
  std::string fault;
  double goes_on = 0;     ///< seconds from the fault's begin to a step after it
  std::int64_t lost = 0;  ///< steps done again
};

/// A time without a step.
struct Pause {
  double from = 0, to = 0;
  double held = 0;  ///< seconds of it in which Slurm had the job wait
  double ours() const { return to - from - held; }
};

/// What the time from the run directory's lock to the first step went to, over all starts.
void print_starts(const journal::Metrics& metrics) {
  using Member = double journal::StartedRecord::*;
  static const std::vector<std::pair<const char*, Member>> phases{
      {"reading data and checkpoints", &journal::StartedRecord::opening_seconds},
      {"measuring, or reading the profile", &journal::StartedRecord::measuring_seconds},
      {"planning", &journal::StartedRecord::planning_seconds},
      {"connecting, taking memory", &journal::StartedRecord::connecting_seconds},
      {"loading the training state", &journal::StartedRecord::loading_seconds},
      {"the first step", &journal::StartedRecord::first_step_seconds}};
  if (metrics.started.empty()) return;
  const auto row = [&](const char* name, auto seconds_of) {
    std::vector<double> all;
    for (const auto& start : metrics.started) all.push_back(seconds_of(start));
    std::ranges::sort(all);
    std::cout << "| " << name << " | " << all[all.size() / 2] << " | " << all.back() << " |\n";
  };
  std::cout << "| before the first step, of " << metrics.started.size() << " starts | median, s | worst, s |\n|---|---|---|\n";
  for (const auto& [name, member] : phases) row(name, [&](const journal::StartedRecord& start) { return start.*member; });
  row("all of it", [&](const journal::StartedRecord& start) {
    double sum = 0;
    for (const auto& [name, member] : phases) sum += start.*member;
    return sum;
  });
}

class Chaos : public ::testing::Test {
 protected:
  void SetUp() override {
    if (no_cluster()) GTEST_SKIP();
    mend_cluster();
  }

  /// Lets the newest incarnation do some steps, strikes, and waits until the run goes on.
  void weather(const SlurmRun& run, BatchJob& job, StormFaults& faults, const Fault& fault) {
    const auto number = damages_.size() + 1;
    SCOPED_TRACE(text(number, ": ", fault.name));
    SlurmRun::Latest before;
    const auto wanted = number == 1 ? 0 : static_cast<std::int64_t>(faults.between(1, 20));
    const bool works = job.waits_until([&] { return job.over() || (before = run.latest()).steps >= wanted; });
    ASSERT_TRUE(works) << job.story();
    ASSERT_FALSE(job.over()) << "it is over before the storm is\n" << job.story();
    const double begin = wall_clock();
    std::cout << number << ": " << fault.name << std::flush;
    fault.strike();
    const double struck = wall_clock();
    SlurmRun::Latest after;
    const bool again = job.waits_until([&] {
      after = run.latest();
      return job.over() || ((!fault.ends_launch || after.incarnation > before.incarnation) && after.time > struck && fault.over());
    });
    fault.mend();
    Damage damage{fault.name, wall_clock() - begin,
                  after.incarnation > before.incarnation && before.steps > 0 ? run.lost_steps(before.incarnation) : 0};
    std::cout << ", step " << losses(run.directory()).size() << ", goes on after " << static_cast<int>(damage.goes_on) << " s, "
              << damage.lost << " steps lost\n"
              << std::flush;
    ASSERT_TRUE(again) << job.state() << " " << job.reason() << "\n" << job.story();
    ASSERT_FALSE(job.over()) << job.story();
    damages_.push_back(std::move(damage));
    if (job.components() == 1 && job.nodes() < 4) grow(run, job);
  }

  /// A job that has lost a node gets one again when it comes back from the queue.
  void grow(const SlurmRun& run, BatchJob& job) {
    const int before = run.latest().incarnation;
    on_head({"scancel", "--batch", "--signal=USR2", job.id()}, true);
    ASSERT_TRUE(job.waits_until([&] { return run.latest().incarnation > before || job.over(); })) << job.story();
  }

  /// The longest first.
  static std::vector<Pause> pauses(const SlurmRun& run, const BatchJob& job) {
    std::vector<double> times;
    for (const auto& step : run.metrics().steps) times.push_back(step.time);
    std::ranges::sort(times);
    std::vector<Pause> all;
    for (std::size_t i = 1; i < times.size(); ++i) all.push_back({times[i - 1], times[i], job.held_within(times[i - 1], times[i])});
    std::ranges::sort(all, std::ranges::greater{}, &Pause::ours);
    return all;
  }

  void print(const std::vector<Pause>& longest, double begin) const {
    std::cout << "| fault | goes on after, s | steps lost |\n|---|---|---|\n";
    for (const auto& damage : damages_) std::cout << "| " << damage.fault << " | " << damage.goes_on << " | " << damage.lost << " |\n";
    std::cout << "| longest times without a step: from | s | of these held by Slurm |\n|---|---|---|\n";
    for (std::size_t i = 0; i < std::min<std::size_t>(longest.size(), 5); ++i)
      std::cout << "| " << longest[i].from - begin << " | " << longest[i].to - longest[i].from << " | " << longest[i].held << " |\n";
    std::cout << std::flush;
  }

  std::vector<Damage> damages_;
};

TEST_F(Chaos, TheRunGoesOnAsIfNothingHadHappened) {
  const int count = of_tier(0, 200, "FLOTILLA_CHAOS_FAULTS"), longest_pause = of_tier(0, 0, "FLOTILLA_CHAOS_PAUSE");
  const bool heterogeneous = of_tier(0, 0, "FLOTILLA_CHAOS_HETEROGENEOUS") != 0;
  const char* const only = std::getenv("FLOTILLA_CHAOS_KIND");
  constexpr int endless = 1'000'000;
  const std::string plan = heterogeneous ? "pipeline = 3\ntensor = 1\n" : "pipeline = 2\ntensor = 1\n";
  const Words nodes{"n1", "n2", "n3", "n4"};
  const Words options = heterogeneous ? Words{} : Words{"--partition=preemptible", "--nodelist=n1,n2,n3,n4", "--nodes=4"};
  const std::string script = heterogeneous ? "heterogeneous.sh" : "one_partition.sh";
  const double begin = wall_clock();
  SlurmRun run{"storm", endless, plan, 32, SlurmRun::Disk::cluster};
  // Killed again and again within a few steps, it may leave no checkpoint several times in a row: no reason to give up here.
  BatchJob job{options, script, run.environment({"FLOTILLA_TRIES=100", "FLOTILLA_DRAIN_EVERY=1"})};
  StormFaults faults{run, job, heterogeneous ? nodes + Words{"n5", "n6"} : nodes,
                     static_cast<unsigned>(of_tier(20261122, 20261122, "FLOTILLA_CHAOS_SEED"))};
  auto all = count == 0 ? faults.each_brief_kind() : faults.deal(static_cast<std::size_t>(count - 1), only == nullptr ? "" : only);
  all.insert(all.begin(), faults.while_measuring());
  for (const auto& fault : all) {
    weather(run, job, faults, fault);
    if (HasFatalFailure()) return;
  }
  // How far it has come is chance; it ends a while after the storm, and that it learns from its job file when it starts again.
  const auto steps = static_cast<std::int64_t>(losses(run.directory()).size()) + 100;
  run.end_after(steps);
  on_head({"scancel", "--batch", "--signal=USR1", job.id()}, true);
  ASSERT_TRUE(job.completes());
  // The signal may have come after that step: then the last start had nothing left to do.
  const auto end = std::max(steps, run.metrics().starts.back().step);
  EXPECT_EQ(losses(run.directory()).size(), static_cast<std::size_t>(end));
  const auto longest = pauses(run, job);
  print(longest, begin);
  print_starts(run.metrics());
  if (longest_pause > 0) {
    EXPECT_LE(longest.front().ours(), longest_pause) << "seconds without a step, after " << longest.front().from - begin << " s\n"
                                                     << job.story();
  }
  EXPECT_EQ(on_head({"sinfo", "-h", "-t", "drain,fail", "-o", "%n %E"}), "") << "a node is left drained";

  const SlurmRun calm{"calm", end, plan};
  fs::create_directories(calm.directory());
  const auto profile = run.directory() / "profile.json";  // gone where the plan's own, of the checkpoint, was the last in use
  if (fs::exists(profile)) fs::copy_file(profile, calm.directory() / "profile.json");
  BatchJob unbroken{options, script, calm.environment()};
  ASSERT_TRUE(unbroken.completes());
  run.expect_the_losses_of(losses(calm.directory()), count == 0 ? 1e-3 : 1e-6);

  auto left = debris(run.directory());
  std::erase_if(left, [&](const std::string& file) { return file == (run.directory() / "launches").string() || file == profile.string(); });
  EXPECT_EQ(left, Words{});
  // Slurm says that a job is over while its last processes go.
  const auto over = [] { return on_head({"squeue", "-h"}, true).empty() && left_on_nodes().empty(); };
  until(over, Milliseconds{500});
  EXPECT_EQ(on_head({"squeue", "-h"}), "") << "a job is stuck";
  EXPECT_EQ(left_on_nodes(), Words{});
}

}  // namespace
}  // namespace flotilla::tests
