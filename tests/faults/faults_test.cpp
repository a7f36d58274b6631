// A rank that dies, stops or is cut off, each rank in turn, in the middle of a run under a mixed plan: it is named within the watch's
// deadline, the codes are those of the table, no rank and no shared memory is left, and the run comes back from its last checkpoint.
#include <chrono>

#include "faults/hosts.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 4;
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

Words job(const fs::path& directory, const Words& more, Seconds deadline = hang_bound()) {
  const auto usual = Words{"train"} + options(directory, ranks) +
                     Words{"--plan=" + mixed_plan().string(), "--checkpoint.every=5", "--device.memory=400MiB", "--watch.interval=200ms"};
  return with(usual + more, "--watch.deadline=", text(deadline.value, "s"));
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
  void start(const std::string& name, const Words& launcher, Seconds deadline = hang_bound()) {
    directory_ = folder() / text(name, "-", GetParam(), "-", deadline.value);
    process_.emplace(launcher + job(directory_, {"--training.steps=1000000"}, deadline), folder());
    const auto going = [&] { return !committed(directory_).empty() && steps_logged(directory_) > 8; };
    ASSERT_TRUE(process_->until([&] { return going() || !process_->running(); })) << process_->err();
    ASSERT_TRUE(process_->running()) << process_->err();
  }

  /// Every process has ended, nothing is left, and the last committed step is sound.
  Ended expect_clean_end() {
    const auto ended = process_->wait();
    EXPECT_TRUE(ended.in_time) << "left:\n" << ended.left << ended.err;
    EXPECT_TRUE(process_->nothing_left()) << process_->states();
    EXPECT_TRUE(fs::is_empty(shared_memory())) << *fs::directory_iterator{shared_memory()};
    for (const auto& step : checkpoint::list(directory_)) EXPECT_EQ(checkpoint::describe(step.directory, true).damaged_segments(), 0);
    return ended;
  }

  /// Whether another than the rank of this test was missed: it only had to wait for a processor.
  bool live_rank_named(const Ended& ended) const { return ended.err.find(text("rank ", GetParam(), " on ")) == std::string::npos; }

  void expect_lost_peer(const Ended& ended, const std::string& host = "") {
    EXPECT_NE(ended.err.find(text("rank ", GetParam(), " on ", host)), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("has been silent for"), std::string::npos) << ended.err;
    EXPECT_NE(content(directory_ / "outcome.json").find("\"exit_code\": 77"), std::string::npos) << content(directory_ / "outcome.json");
  }

  /// From the last checkpoint, two steps on.
  void expect_resumes(const Words& launcher) {
    const auto last = committed(directory_).back();
    const auto again = run(launcher + job(directory_, {text("--training.steps=", last + 2)}));
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_NE(again.out.find(text("resumed after step ", last)), std::string::npos) << again.out;
  }

  fs::path directory_;
  std::optional<Process> process_;
};

TEST_P(Faults, KilledRank) {
  start("killed", launcher());
  const auto living = process_->ranks();
  ASSERT_TRUE(living.contains(GetParam()) && ::kill(living.at(GetParam()), SIGKILL) == 0) << process_->err();
  const auto ended = expect_clean_end();
  EXPECT_EQ(ended.code, 137) << ended.err;
  // The launcher's own words; what the others could say in time is chance.
  EXPECT_NE(ended.err.find("exited on signal 9 (Killed)"), std::string::npos) << ended.err;
  expect_resumes(launcher());
}

TEST_P(Faults, StoppedRank) {
  const auto stop_one = [&](Seconds deadline) {
    start("stopped", launcher(), deadline);
    const auto living = process_->ranks();
    if (living.contains(GetParam())) ::kill(living.at(GetParam()), SIGSTOP);
    return expect_clean_end();
  };
  const auto ended = with_deadlines(stop_one, [&](const Ended& one) { return live_rank_named(one); });
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
  const auto unplug_one = [&](Seconds deadline) {
    start("unplugged", hosts().launcher(), deadline);
    hosts().link(GetParam(), "down");
    const auto silent = [&] { return process_->err().find("has been silent for") != std::string::npos; };
    EXPECT_TRUE(process_->until(silent)) << process_->err();
    EXPECT_TRUE(process_->until([&] { return process_->ranks().empty(); })) << "ranks are left\n" << process_->states();
    // mpirun waits for the daemon behind the cable; a batch system would end it now.
    hosts().link(GetParam(), "up");
    return expect_clean_end();
  };
  const auto ended = with_deadlines(unplug_one, [&](const Ended& one) { return live_rank_named(one); });
  EXPECT_EQ(ended.code, 77) << ended.err;
  expect_lost_peer(ended, hosts().host(GetParam()));
  expect_resumes(hosts().launcher());
}

INSTANTIATE_TEST_SUITE_P(EachHost, Cable, testing::Range(0, ranks));

}  // namespace
}  // namespace flotilla::tests
