// What surrounds a run and is not as it should be: a reader or a terminal that goes away, threads that nobody grants, files that may not
// become large.
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

Words job(const fs::path& directory, int steps, const Words& more = {}) {
  return Words{FLOTILLA_BINARY, "train"} + options(directory, 1) + Words{text("--training.steps=", steps), "--training.warmup-steps=0"} +
         more;
}

std::string line_of(const Words& words) {
  std::string line = "exec";
  for (const auto& word : words) line += " '" + word + "'";
  return line;
}

TEST(Surroundings, ARunWhoseReaderGoesAwayIsTrainedToItsEnd) {
  const auto directory = folder() / "unread";
  const auto line = line_of(job(directory, 20));
  const auto ended = run({"bash", "-c", "set -o pipefail; (" + line + ") | head -1"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(committed(directory).back(), 20) << ended.err;
}

TEST(Surroundings, ARunWhoseTerminalGoesAwayIsSaved) {
  const auto directory = folder() / "hung-up";
  Process terminal{{"script", "-qefc", line_of(job(directory, 1000000)), "/dev/null"}, folder()};
  ASSERT_TRUE(terminal.until([&] { return steps_logged(directory) >= 3 || !terminal.running(); })) << terminal.out();
  ::kill(terminal.pid(), SIGKILL);
  EXPECT_TRUE(terminal.nothing_left());
  const auto stops = journal::read_metrics(directory).stops;
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].exit_code, ExitCode::requeue);
  EXPECT_NE(stops[0].reason.find("SIGHUP"), std::string::npos) << stops[0].reason;
  EXPECT_EQ(committed(directory), std::vector<std::int64_t>{stops[0].step});
}

/// The system would end the process by a signal.
TEST(Surroundings, AnOutputThatMayNotBecomeLargeIsRefusedWithoutATrace) {
  const auto output = folder() / "plan.json";
  const Words plan{FLOTILLA_BINARY, "plan", "--model.name=gpt2", "--training.global-batch=64", "--pool=T4=4", "--format=json", "-o",
                   output};
  const auto ended = run({"bash", "-c", "ulimit -f 1; " + line_of(plan)});
  EXPECT_EQ(ended.code, 69) << ended.err;
  EXPECT_NE(the_error(ended).find("File too large"), std::string::npos) << ended.err;
  for (const auto& entry : fs::directory_iterator{folder()})
    EXPECT_EQ(entry.path().string().find(output.string()), std::string::npos) << entry.path();
}

TEST(Surroundings, AThreadThatIsRefusedIsWhatTheMachineLacks) {
  const auto trial = run({"strace", "-o", "/dev/null", "true"});
  if (trial.code != 0) GTEST_SKIP() << "strace cannot trace here: " << trial.err;
  const Words no_threads{
      "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=clone,clone3", "-e", "inject=clone,clone3:error=EAGAIN:when=1+"};
  const auto ended = run(no_threads + job(folder() / "alone", 2));
  EXPECT_EQ(ended.code, 69) << ended.err;
  EXPECT_NE(the_error(ended).find("no thread or process can be started"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace flotilla::tests
