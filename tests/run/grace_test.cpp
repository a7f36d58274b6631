// SIGTERM with less time before SIGKILL than a step takes: the step in hand is given up by all ranks, the one before it saved at once.
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2, steps = 3;

/// Steps of seconds. The ranks are pipeline stages: each waits for messages of the other when the step is given up.
Words job(const fs::path& run) {
  auto command = train(run, ranks, {text("--training.steps=", steps), "--run.grace=500ms", "--plan.pipeline=2"});
  return with(with(command, "--training.global-batch=", "2048"), "--probe.file=", (folder() / "profile-grace.json").string());
}

const fs::path& unbroken() {
  static const fs::path run = [] {
    auto there = folder() / "unbroken";
    const auto ended = tests::run(job(there));
    EXPECT_EQ(ended.code, 0) << ended.err;
    return there;
  }();
  return run;
}

/// Ends the run by a signal to `rank` as soon as `when` holds; how it ended.
template <class Condition>
Ended stop_when(Process& process, int rank, Condition when) {
  EXPECT_TRUE(wait_until([&] { return when() || !process.running(); }, patience)) << process.err();
  const auto living = process.ranks();
  EXPECT_TRUE(living.contains(rank) && ::kill(living.at(rank), SIGTERM) == 0);
  auto ended = process.wait(patience);
  EXPECT_TRUE(ended.in_time) << "hung\n" << ended.left << ended.out << ended.err;
  EXPECT_TRUE(process.nothing_left());
  EXPECT_EQ(ended.code, 75) << ended.out << ended.err;
  return ended;
}

class Grace : public ::testing::TestWithParam<int> {};

TEST_P(Grace, TheStepBeforeTheOneInHandIsSaved) {
  unbroken();
  const auto run = folder() / text("told-on-", GetParam());
  std::int64_t saved = 0;
  {
    Process process{job(run), folder()};
    const auto ended = stop_when(process, GetParam(), [&] { return steps_logged(run) >= 1; });
    ASSERT_EQ(committed(run).size(), 1u) << ended.err;
    saved = committed(run).front();
    EXPECT_LT(saved, steps);
    EXPECT_EQ(journal::read_metrics(run).steps.back().step, saved);
    EXPECT_NE(ended.err.find(text("SIGTERM on rank ", GetParam())), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find(text("no time for step ", saved + 1, " and a save; saved at step ", saved)), std::string::npos) << ended.err;
    EXPECT_EQ(debris(run), Words{});
  }
  const auto ended = tests::run(job(run));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find(text("resumed after step ", saved)), std::string::npos) << ended.out;
  EXPECT_EQ(losses(run), losses(unbroken())) << "the samples of the step that was given up come again, to the bit";
}

INSTANTIATE_TEST_SUITE_P(Told, Grace, ::testing::Values(0, 1));

TEST(Grace, TheFirstStepLeavesNothingToSave) {
  unbroken();
  const auto run = folder() / "first-step";
  {
    Process process{job(run), folder()};
    const auto ended = stop_when(process, 0, [&] { return process.out().find("arena ") != std::string::npos; });
    EXPECT_NE(ended.err.find("no time for step 1"), std::string::npos) << ended.err;
    EXPECT_TRUE(committed(run).empty());
  }
  EXPECT_EQ(tests::run(job(run)).code, 0);
  EXPECT_EQ(losses(run), losses(unbroken()));
}

}  // namespace
}  // namespace flotilla::tests
