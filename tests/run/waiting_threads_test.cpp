// Threads that wait for each other leave the cores to others.
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

}  // namespace
}  // namespace flotilla::tests
