// A rank that dies, stops or is cut off, each rank in turn, in the middle of a run under a mixed plan: it is named within the watch's
// deadline, the codes are those of the table, no rank and no shared memory is left, and the run comes back from its last checkpoint.
#include <chrono>

#include "faults/hosts.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 4;
// Of the watch: where a rank falls silent, longer than a busy machine keeps another from running; elsewhere nobody is missed.
constexpr Seconds soon{6}, late{120};

/// Stages of one, two (tensor-parallel) and one rank, cut unevenly.
fs::path mixed_plan() {
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), length, global_batch, Precision::fp32, 1, 3, 1, 2,
                              plan::ScheduleKind::one_f_one_b, {0, 1, 3, 4});
  plan.stages[1].replicas[0].tensor_parallel = 2;
  plan.stages[1].replicas[0].devices = {Rank{1}, Rank{2}};
  plan.stages[2].replicas[0].devices = {Rank{3}};
  const auto file = folder() / "mixed.json";
  files::write_plan(file, plan);
  return file;
}

Words job(const fs::path& directory, Seconds deadline, const Words& more) {
  return Words{"train"} + options(directory, ranks) +
         Words{"--plan=" + mixed_plan().string(), "--checkpoint.every=5", "--device.memory=400MiB",
               text("--watch.deadline=", deadline.value, "s"), "--watch.interval=200ms"} +
         more;
}

/// Where Open MPI keeps what ranks of a host share: a folder of this test's own, to see what is left.
const fs::path& shared_memory() {
  static const fs::path place = [] {
    auto made = folder() / "shm";
    fs::create_directories(made);
    return made;
  }();
  return place;
}

Words launcher() { return mpirun(ranks) + Words{"--mca", "btl_vader_backing_directory", shared_memory().string(), FLOTILLA_BINARY}; }

class Faults : public testing::TestWithParam<int> {
 protected:
  /// A run that has saved and goes on.
  void start(const std::string& name, const Words& launcher, Seconds deadline) {
    directory_ = folder() / text(name, "-", GetParam());
    process_.emplace(launcher + job(directory_, deadline, {"--training.steps=1000000"}), folder());
    const auto going = [&] { return !committed(directory_).empty() && steps_logged(directory_) > 8; };
    ASSERT_TRUE(wait_until([&] { return going() || !process_->running(); }, patience)) << process_->err();
    ASSERT_TRUE(process_->running()) << process_->err();
  }

  /// Every process has ended, nothing is left, and the last committed step is sound.
  Ended expect_clean_end() {
    const auto ended = process_->wait(patience);
    EXPECT_TRUE(ended.in_time) << "left:\n" << ended.left << ended.err;
    EXPECT_TRUE(process_->nothing_left()) << process_->states();
    EXPECT_TRUE(fs::is_empty(shared_memory())) << *fs::directory_iterator{shared_memory()};
    for (const auto& step : checkpoint::list(directory_)) EXPECT_EQ(checkpoint::describe(step.directory, true).damaged_segments(), 0);
    return ended;
  }

  void expect_lost_peer(const Ended& ended, const std::string& host = "") {
    EXPECT_NE(ended.err.find(text("rank ", GetParam(), " on ", host)), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("has been silent for"), std::string::npos) << ended.err;
    EXPECT_NE(content(directory_ / "outcome.json").find("\"exit_code\": 77"), std::string::npos) << content(directory_ / "outcome.json");
  }

  /// From the last checkpoint, two steps on.
  void expect_resumes(const Words& launcher) {
    const auto last = committed(directory_).back();
    const auto again = run(launcher + job(directory_, late, {text("--training.steps=", last + 2)}));
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_NE(again.out.find(text("resumed after step ", last)), std::string::npos) << again.out;
  }

  fs::path directory_;
  std::optional<Process> process_;
};

TEST_P(Faults, KilledRank) {
  start("killed", launcher(), late);
  const auto living = process_->ranks();
  ASSERT_TRUE(living.contains(GetParam()) && ::kill(living.at(GetParam()), SIGKILL) == 0) << process_->err();
  const auto ended = expect_clean_end();
  EXPECT_EQ(ended.code, 137) << ended.err;
  // The launcher's own words; what the others could say in time is chance.
  EXPECT_NE(ended.err.find("exited on signal 9 (Killed)"), std::string::npos) << ended.err;
  expect_resumes(launcher());
}

TEST_P(Faults, StoppedRank) {
  start("stopped", launcher(), soon);
  const auto living = process_->ranks();
  ASSERT_TRUE(living.contains(GetParam()) && ::kill(living.at(GetParam()), SIGSTOP) == 0) << process_->err();
  const auto ended = expect_clean_end();
  EXPECT_EQ(ended.code, 77) << ended.err;
  expect_lost_peer(ended);
  expect_resumes(launcher());
}

INSTANTIATE_TEST_SUITE_P(EachRank, Faults, testing::Range(0, ranks));

const Hosts& hosts() {
  static const Hosts all{ranks};
  return all;
}

class Cable : public Faults {};

TEST_P(Cable, UnpluggedHost) {
  if (!hosts().there()) GTEST_SKIP() << hosts().why_not();
  start("unplugged", hosts().launcher(), soon);
  hosts().link(GetParam(), "down");
  const auto silent = [&] { return process_->err().find("has been silent for") != std::string::npos; };
  EXPECT_TRUE(wait_until(silent, patience)) << process_->err();
  EXPECT_TRUE(wait_until([&] { return process_->ranks().empty(); }, patience)) << "ranks are left\n" << process_->states();
  // mpirun waits for the daemon behind the cable; a batch system would end it now.
  hosts().link(GetParam(), "up");
  const auto ended = expect_clean_end();
  EXPECT_EQ(ended.code, 77) << ended.err;
  expect_lost_peer(ended, hosts().host(GetParam()));
  expect_resumes(hosts().launcher());
}

INSTANTIATE_TEST_SUITE_P(EachHost, Cable, testing::Range(0, ranks));

}  // namespace
}  // namespace flotilla::tests
