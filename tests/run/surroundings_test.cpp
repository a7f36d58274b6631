// What surrounds a run and is not as it should be: a reader that goes away, threads that nobody grants.
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

Words job(const fs::path& directory, int steps, const Words& more = {}) {
  return Words{FLOTILLA_BINARY, "train"} + options(directory, 1) + Words{text("--training.steps=", steps), "--training.warmup-steps=0"} + more;
}

TEST(Surroundings, ARunWhoseReaderGoesAwayIsTrainedToItsEnd) {
  const auto directory = folder() / "unread";
  std::string line = "exec";
  for (const auto& word : job(directory, 20)) line += " '" + word + "'";
  const auto ended = run({"bash", "-c", "set -o pipefail; (" + line + ") | head -1"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(committed(directory).back(), 20) << ended.err;
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
