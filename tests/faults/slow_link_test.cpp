// The link between two hosts becomes slow in the middle of a run whose replicas sum over it: the group is named, with hosts and stage and
// what it costs; with --replan auto the run changes to a plan that has less to send there.
#include <optional>

#include "faults/hosts.hpp"

namespace flotilla::tests {
namespace {

TEST(SlowLink, IsNamedAndThePlanLeavesIt) {
  const Hosts hosts{2};
  if (!hosts.there()) GTEST_SKIP() << hosts.why_not();
  const auto directory = folder() / "slow-link";
  std::optional<Process> running;
  const auto start = [&] {
    running.emplace(hosts.launcher() + Words{"train"} + options(directory, 2) +
                        Words{"--plan=" + plan_file(2, 1, 1).string(), "--training.steps=1000000", "--run.log-every=1000", "--replan=auto",
                              "--log-level=debug"},
                    folder());
    const auto settled = [&] { return windows_judged(*running) >= 3 && steps_logged(directory) > 40; };  // and its profile is corrected
    ASSERT_TRUE(running->until([&] { return settled() || !running->running(); })) << running->err();
  };
  // Where others take the cores, the first iterations may prove the profile wrong and change the plan. Then the run begins anew.
  start();
  for (int attempt = 1; attempt < 3 && !journal::read_metrics(directory).plans.empty(); ++attempt) {
    ::kill(running->ranks().at(0), SIGTERM);
    running->wait();
    fs::remove_all(directory);
    start();
  }
  Process& process = *running;
  // Twenty times an iteration, so that it is most of one however much else the processors have to do; the window that it falls in is as
  // many iterations long as were two seconds before.
  if (!hosts.slow(0, 1, "100mbit")) GTEST_SKIP() << "no traffic control here";
  const auto changed = [&] {
    const auto plans = journal::read_metrics(directory).plans;
    return std::ranges::any_of(
        plans, [](const auto& p) { return p.refused.empty() && p.reason.find("the network between") != std::string::npos; });
  };
  // Judged by windows, not by time: what is not named in so many never is.
  constexpr int enough_windows = 60;
  const int before = windows_judged(process);
  EXPECT_TRUE(process.until([&] { return changed() || windows_judged(process) > before + enough_windows; }));
  EXPECT_TRUE(changed()) << process.out() << process.err();
  ::kill(process.ranks().at(0), SIGTERM);
  const auto ended = process.wait();
  EXPECT_EQ(ended.code, 75) << ended.err;
  const auto metrics = journal::read_metrics(directory);
  const auto link = std::ranges::find_if(metrics.slow, [](const auto& record) { return !record.group.empty() && !record.over; });
  ASSERT_NE(link, metrics.slow.end()) << ended.err;
  const auto both = text("rank 0 on ", hosts.host(0), ", rank 1 on ", hosts.host(1));
  EXPECT_EQ(link->group, "data-parallel group of " + both);
  EXPECT_GE(link->factor, 4);
  EXPECT_GT(link->cost_seconds, 0);
  EXPECT_NE(ended.err.find(text("the network of the data-parallel group of ", both, " (stage 0) is slow: its collectives take ")),
            std::string::npos)
      << ended.err;
  EXPECT_NE(ended.out.find("the network between " + both + " is "), std::string::npos) << ended.out;
}

}  // namespace
}  // namespace flotilla::tests
