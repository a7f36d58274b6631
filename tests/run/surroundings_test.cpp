// What surrounds a run and is not as it should be: long names, a reader that goes away, signals without end, threads that nobody grants.
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

Words job(const fs::path& directory, int steps, const Words& more = {}) {
  return Words{FLOTILLA_BINARY, "train"} + options(directory, 1) + Words{text("--training.steps=", steps), "--training.warmup-steps=0"} + more;
}

TEST(Surroundings, ALongNameOfTheRunDirectoryIsNoReasonToFail) {
  const auto directory = folder() / std::string(230, 'x');
  const auto ended = run(job(directory, 2));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(committed(directory), std::vector<std::int64_t>{2}) << ended.err;
}

TEST(Surroundings, ARunWhoseReaderGoesAwayIsTrainedToItsEnd) {
  const auto directory = folder() / "unread";
  std::string line = "exec";
  for (const auto& word : job(directory, 20)) line += " '" + word + "'";
  const auto ended = run({"bash", "-c", "set -o pipefail; (" + line + ") | head -1"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(committed(directory).back(), 20) << ended.err;
}

TEST(Surroundings, SignalsUntilTheLastMomentDoNotChangeTheExitCode) {
  const auto directory = folder() / "signals";
  Process process{job(directory, 100000), folder()};
  ASSERT_TRUE(wait_until([&] { return steps_logged(directory) >= 3 || !process.running(); }, patience)) << process.err();
  EXPECT_TRUE(wait_until([&] { return ::kill(process.pid(), SIGTERM), !process.running(); }, patience)) << process.err();
  const auto ended = process.wait(patience);
  EXPECT_EQ(ended.code, 75) << ended.out << ended.err;
  EXPECT_EQ(committed(directory).size(), 1u) << ended.err;
}

TEST(Surroundings, AThreadThatIsRefusedIsWhatTheMachineLacks) {
  const auto trial = run({"strace", "-o", "/dev/null", "true"});
  if (trial.code != 0) GTEST_SKIP() << "strace cannot trace here: " << trial.err;
  const Words no_threads{"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=clone,clone3", "-e", "inject=clone,clone3:error=EAGAIN:when=1+"};
  const auto ended = run(no_threads + job(folder() / "alone", 2));
  EXPECT_EQ(ended.code, 69) << ended.err;
  EXPECT_NE(the_error(ended).find("no thread or process can be started"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace flotilla::tests
