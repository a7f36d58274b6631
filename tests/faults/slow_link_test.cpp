// The link between two hosts becomes slow in the middle of a run whose replicas sum over it: the group is named, with hosts and stage and
// what it costs; with --replan auto the run changes to a plan that has less to send there.
#include "faults/hosts.hpp"

namespace flotilla::tests {
namespace {

/// So much that what the ranks wait for each other on a busy machine is little beside it.
constexpr const char* slow_rate = "20mbit";
constexpr Milliseconds to_notice{180000};

TEST(SlowLink, IsNamedAndThePlanLeavesIt) {
  const Hosts hosts{2};
  if (!hosts.there()) GTEST_SKIP() << hosts.why_not();
  const auto directory = folder() / "slow-link";
  Process process{hosts.launcher() + Words{"train"} + options(directory, 2) +
                      Words{"--plan=" + plan_file(2, 1, 1).string(), "--training.steps=1000000", "--run.log-every=1000", "--replan=auto",
                            "--log-level=debug"},
                  folder()};
  ASSERT_TRUE(wait_until([&] { return steps_logged(directory) > 50 || !process.running(); }, patience)) << process.err();
  if (!hosts.slow(0, 1, slow_rate)) GTEST_SKIP() << "no traffic control here";
  const auto changed = [&] {
    const auto plans = journal::read_metrics(directory).plans;
    return !plans.empty() && plans.back().refused.empty();
  };
  EXPECT_TRUE(wait_until(changed, to_notice)) << process.out() << process.err();
  ::kill(process.ranks().at(0), SIGTERM);
  const auto ended = process.wait(patience);
  EXPECT_EQ(ended.code, 75) << ended.err;
  const auto metrics = journal::read_metrics(directory);
  const auto link = std::ranges::find_if(metrics.slow, [](const auto& record) { return !record.group.empty() && !record.over; });
  ASSERT_NE(link, metrics.slow.end()) << ended.err;
  const auto both = text("rank 0 on ", hosts.host(0), ", rank 1 on ", hosts.host(1));
  EXPECT_EQ(link->group, "data-parallel group of " + both);
  EXPECT_GE(link->factor, 4);
  EXPECT_GT(link->cost_seconds, 0);
  EXPECT_NE(ended.err.find(text("the network of the data-parallel group of ", both, " (stage 0) is slow: its sums take ")),
            std::string::npos)
      << ended.err;
  EXPECT_NE(ended.out.find("the network between " + both + " is "), std::string::npos) << ended.out;
}

}  // namespace
}  // namespace flotilla::tests
