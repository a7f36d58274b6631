// What somebody meets who runs the program for the first time: threads that leave the cores to others, lines that fit a terminal, a run
// that goes on as it began.
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

/// What libgomp says of a variable, once for each time that it is loaded.
std::vector<std::int64_t> spin_counts(const Words& command, const Words& environment) {
  const auto ended = run(command, environment + Words{"OMP_DISPLAY_ENV=verbose"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  std::vector<std::int64_t> counts;
  const std::string name = "GOMP_SPINCOUNT = '";
  for (auto at = ended.err.find(name); at != std::string::npos; at = ended.err.find(name, at + 1))
    counts.push_back(std::stoll(ended.err.substr(at + name.size())));
  return counts;
}

constexpr std::int64_t soon = 1000;  // looks at a flag, 50 us at 50 ns each; libgomp's own is 300,000

TEST(WaitingThreads, SleepSoonInEveryCommandThatComputes) {
  for (const char* command : {"train", "probe"}) {
    const auto counts = spin_counts({FLOTILLA_BINARY, command, "--help"}, {});
    ASSERT_EQ(counts.size(), 2u) << command;  // before and after the new start
    EXPECT_LE(counts.back(), soon) << command;
  }
  EXPECT_EQ(spin_counts({FLOTILLA_BINARY, "plan", "--help"}, {}).size(), 1u) << "it starts anew for nothing";
}

TEST(WaitingThreads, DoAsTheUserSays) {
  EXPECT_EQ(spin_counts({FLOTILLA_BINARY, "train", "--help"}, {"GOMP_SPINCOUNT=7"}), std::vector<std::int64_t>{7});
  const auto active = spin_counts({FLOTILLA_BINARY, "train", "--help"}, {"OMP_WAIT_POLICY=active"});
  ASSERT_EQ(active.size(), 1u);
  EXPECT_GT(active.front(), 300'000);
}

TEST(WaitingThreads, SleepSoonOnEveryRankOfALauncher) {
  const auto counts = spin_counts(mpirun(2) + Words{FLOTILLA_BINARY, "train", "--help"}, {});
  EXPECT_EQ(std::ranges::count_if(counts, [](auto count) { return count <= soon; }), 2);
}

Words lines_of(const std::string& text) {
  std::istringstream in{text};
  Words lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has_line(const std::string& text, const std::string& beginning) {
  return std::ranges::any_of(lines_of(text), [&](const auto& line) { return line.starts_with(beginning); });
}

class FirstRun : public testing::Test {
 protected:
  Ended go(int steps, const Words& more = {}) {
    return run(train(run_, 2, Words{text("--training.steps=", steps), "--training.learning-rate=1e-3"} + more));
  }
  double rate_of(std::int64_t step) const {
    for (const auto& record : journal::effective_steps(journal::read_metrics(run_)))
      if (record.step == step) return record.learning_rate;
    ADD_FAILURE() << "no step " << step;
    return 0;
  }
  const fs::path run_ = folder() / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(FirstRun, FitsEightyColumnsSpeaksFirstAndSumsUp) {
  const auto ended = go(6);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto run_path_length = run_.string().size();
  for (const auto& line : lines_of(ended.out)) EXPECT_LE(line.size(), 80 + (line.find(run_) == line.npos ? 0 : run_path_length)) << line;
  EXPECT_TRUE(ended.err.starts_with(text("flotilla: incarnation 1 of ", run_.string(), ": 2 ranks; a new run"))) << ended.err;
  EXPECT_TRUE(has_line(ended.out, "summary")) << ended.out;
  EXPECT_NE(ended.out.find("steps 1 to 6 of 6 in "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find((run_ / "step-6").string()), std::string::npos) << ended.out;
}

/// mpirun gives its ranks a terminal in any case.
TEST(UnderMpirun, TablesAreBoldOnATerminalOnly) {
  const auto command =
      mpirun(1) + Words{FLOTILLA_BINARY, "plan", "--model.name=gpt2-tiny", "--pool=A100-40=2/2", "--training.global-batch=2"};
  const std::string bold = "\x1b[1m";
  const auto into_file = run(command);
  ASSERT_EQ(into_file.code, 0) << into_file.err;
  EXPECT_NE(into_file.out.find("stage  layers"), std::string::npos) << into_file.out;
  EXPECT_EQ(into_file.out.find('\x1b'), std::string::npos) << into_file.out;
  std::string line;
  for (const auto& word : command) line += word + ' ';
  const auto file = (folder() / "typescript").string();
  const auto on_terminal = run({"script", "-qec", line, file});
  ASSERT_EQ(on_terminal.code, 0) << on_terminal.err << on_terminal.out;
  EXPECT_NE(files::read_text(file).find(bold), std::string::npos) << files::read_text(file);
  const auto into_pipe = run({"script", "-qec", line + "| cat", file});
  ASSERT_EQ(into_pipe.code, 0) << into_pipe.err << into_pipe.out;
  EXPECT_EQ(files::read_text(file).find(bold), std::string::npos) << files::read_text(file);
}

TEST_F(FirstRun, MoreStepsKeepTheScheduleUnlessAsked) {
  ASSERT_EQ(go(6).code, 0);
  const auto least = rate_of(6);
  const auto longer = go(9);
  ASSERT_EQ(longer.code, 0) << longer.err;
  EXPECT_NE(longer.err.find("decays over 6 steps, as in the checkpoint, not over the 9 of --training.steps"), std::string::npos)
      << longer.err;
  for (const int step : {7, 8, 9}) EXPECT_EQ(rate_of(step), least) << step;
  const auto asked = go(12, {"--training.decay-steps=12"});
  ASSERT_EQ(asked.code, 0) << asked.err;
  EXPECT_EQ(asked.err.find("decays over"), std::string::npos) << asked.err;
  EXPECT_GT(rate_of(10), least);
  EXPECT_EQ(rate_of(12), least);
  const auto again = go(14);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("decays over 12 steps"), std::string::npos) << again.err;
}

TEST_F(FirstRun, AnotherMicrobatchIsObeyedOnResume) {
  ASSERT_EQ(go(2, {"--plan.microbatch=1"}).code, 0);
  const auto resumed = go(4, {"--plan.microbatch=4"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const auto plan = files::plan_from_json(checkpoint::latest(run_)->manifest.plan, "the checkpoint");
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) EXPECT_EQ(replica.quanta * plan.quantum, 4);
}

TEST_F(FirstRun, ItsPlanIsWrittenFromTheCheckpointAndRunsAgain) {
  ASSERT_EQ(go(2).code, 0);
  const auto file = folder() / "written-plan.json";
  const auto shown = run({FLOTILLA_BINARY, "inspect", run_, "--write-plan", file});
  ASSERT_EQ(shown.code, 0) << shown.err;
  for (const auto& line : lines_of(shown.out))
    EXPECT_LE(line.size(), 80 + (line.find(run_) == line.npos ? 0 : run_.string().size())) << line;
  const auto resumed = go(4, {"--plan=" + file.string()});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("--plan "), std::string::npos) << resumed.out;
  const auto refused = run({FLOTILLA_BINARY, "inspect", file, "--write-plan", folder() / "no-plan.json"});
  EXPECT_EQ(refused.code, 64);
  EXPECT_NE(the_error(refused).find("--write-plan takes the plan out of a checkpoint"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace flotilla::tests
