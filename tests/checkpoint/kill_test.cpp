// kill -9 of a random rank at a random moment of a save: what was committed before still loads.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <fstream>
#include <random>

#include "flotilla/base/text.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "support/temporary_folder.hpp"
#include "support/tier.hpp"

namespace flotilla::checkpoint::kill_test {
namespace {

std::int64_t acknowledged(const std::filesystem::path& run) {
  std::int64_t step = 0;
  std::ifstream{run / "acknowledged"} >> step;
  return step;
}

/// Returns the launcher's exit code.
int save_until_killed(const std::filesystem::path& run, int ranks, std::mt19937& random) {
  const auto victim = random() % static_cast<unsigned>(ranks), steps = 1 + random() % 3, phase = random() % 7;
  const auto delay = random() % 3000;
  const auto log = (run / "log").string();
  const int status = ::system(text("timeout -k 5 300 ", FLOTILLA_MPIRUN, " -n ", ranks, " ", FLOTILLA_SAVER, " ", run.string(), " ", victim,
                                   " ", steps, " ", phase, " ", delay, " > ", log, " 2>&1")
                                  .c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void expect_sound(const std::filesystem::path& run) {
  const auto newest = latest(run);
  const auto promised = acknowledged(run);
  if (!newest) {
    EXPECT_EQ(promised, 0) << "a committed step is gone";
    return;
  }
  EXPECT_GE(newest->manifest.step, promised);
  for (const auto& step : list(run)) EXPECT_EQ(describe(step.directory, true).damaged_segments(), 0) << step.directory;
}

TEST(Kill, ACommittedCheckpointIsNeverLost) {
  const tests::TemporaryFolder run;
  std::mt19937 random{61};
  std::int64_t last = 0;
  for (int round = 0; round < tests::of_tier(8, 40); ++round) {
    const int ranks = 1 + static_cast<int>(random() % 4);
    EXPECT_EQ(save_until_killed(run.path(), ranks, random), 137) << std::ifstream{run / "log"}.rdbuf();
    expect_sound(run.path());
    ASSERT_GE(acknowledged(run.path()), last);
    last = acknowledged(run.path());
  }
  EXPECT_GT(last, 5) << "too few saves were acknowledged for the test to mean much";
}

}  // namespace
}  // namespace flotilla::checkpoint::kill_test
