// SIGTERM with less time before SIGKILL than a step takes: the step in hand is given up by all ranks, the one before it saved at once.
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2, endless = 1'000'000;

/// Steps of a second or more. The ranks are pipeline stages: each waits for messages of the other when the step is given up. At a constant
/// learning rate, so that runs of unlike lengths compare: which step is in hand when the signal comes is chance.
Words job(const fs::path& run, std::int64_t steps) {
  auto command = train(run, ranks,
                       {text("--training.steps=", steps), "--training.learning-rate=3e-4", "--training.minimum-learning-rate=3e-4",
                        "--run.grace=500ms", "--plan.pipeline=2"});
  return with(with(command, "--training.global-batch=", "1024"), "--probe.file=", (folder() / "profile-grace.json").string());
}

/// Losses of a run to this step that nothing disturbs.
const std::map<std::int64_t, double>& unbroken(std::int64_t steps) {
  static std::map<std::int64_t, std::map<std::int64_t, double>> found;
  const auto [history, first] = found.try_emplace(steps);
  if (first) {
    const auto run = folder() / text("unbroken-", steps);
    const auto ended = tests::run(job(run, steps));
    EXPECT_EQ(ended.code, 0) << ended.err;
    history->second = losses(run);
  }
  return history->second;
}

/// Ends the run by a signal to `rank` as soon as `when` holds; how it ended.
template <class Condition>
Ended stop_when(Process& process, int rank, Condition when) {
  EXPECT_TRUE(process.until([&] { return when() || !process.running(); })) << process.err();
  const auto living = process.ranks();
  EXPECT_TRUE(living.contains(rank) && ::kill(living.at(rank), SIGTERM) == 0);
  auto ended = process.wait();
  EXPECT_TRUE(ended.in_time) << "hung\n" << ended.left << ended.out << ended.err;
  EXPECT_TRUE(process.nothing_left());
  EXPECT_EQ(ended.code, 75) << ended.out << ended.err;
  return ended;
}

class Grace : public ::testing::TestWithParam<int> {};

TEST_P(Grace, TheStepBeforeTheOneInHandIsSaved) {
  const auto run = folder() / text("told-on-", GetParam());
  std::int64_t saved = 0;
  {
    Process process{job(run, endless), folder()};
    const auto ended = stop_when(process, GetParam(), [&] { return steps_logged(run) >= 1; });
    ASSERT_EQ(committed(run).size(), 1u) << ended.err;
    saved = committed(run).front();
    EXPECT_EQ(journal::read_metrics(run).steps.back().step, saved);
    EXPECT_NE(ended.err.find(text("SIGTERM on rank ", GetParam())), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find(text("no time for step ", saved + 1, " and a save; saved at step ", saved)), std::string::npos) << ended.err;
    EXPECT_EQ(debris_beside_outcomes(run), Words{});
  }
  const auto ended = tests::run(job(run, saved + 1));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find(text("resumed after step ", saved)), std::string::npos) << ended.out;
  EXPECT_EQ(losses(run), unbroken(saved + 1)) << "the samples of the step that was given up come again, to the bit";
}

INSTANTIATE_TEST_SUITE_P(Told, Grace, ::testing::Values(0, 1));

TEST(Grace, TheFirstStepLeavesNothingToSave) {
  fs::path run;
  // A signal that comes after the first step shows nothing of it: again, then. A run that ignored the signal would show it every time.
  for (int attempt = 1; attempt <= 20; ++attempt) {
    run = folder() / text("first-step-", attempt);
    Process process{job(run, endless), folder()};
    const auto ended = stop_when(process, 0, [&] { return process.out().find("arena ") != std::string::npos; });
    if (steps_logged(run) > 0 && attempt < 20) continue;
    EXPECT_NE(ended.err.find("no time for step 1"), std::string::npos) << ended.err;
    EXPECT_TRUE(committed(run).empty());
    break;
  }
  EXPECT_EQ(tests::run(job(run, 1)).code, 0);
  EXPECT_EQ(losses(run), unbroken(1));
}

}  // namespace
}  // namespace flotilla::tests
