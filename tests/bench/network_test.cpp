#include <gtest/gtest.h>

#include "flotilla/bench/fabric.hpp"
#include "made_up.hpp"

namespace flotilla::bench {
namespace {

/// Links of all first pairs; `rate` of a link and of MPI's share of it.
template <class Rate, class Share>
Report report_with_links(int nodes, Rate rate, Share share) {
  auto report = tests::made_up_report(nodes);
  std::vector<NodePlace> places;
  for (const auto& node : report.nodes) places.push_back({node.host, "", ""});
  for (const auto& [a, b] : first_pairs(places)) {
    const auto& from = report.nodes[static_cast<std::size_t>(a)].host;
    const auto& to = report.nodes[static_cast<std::size_t>(b)].host;
    for (const bool mpi : {false, true})
      report.links.push_back({from, to, mpi ? training_transport : "", false,
                              {{{8}, {2e-6}, {4e6}, {}, {}}, {{1 << 20}, {1e-4}, {rate(a, b) * (mpi ? share(a, b) : 1)}, {}, {}}}, ""});
  }
  return report;
}

const auto even = [](int, int) { return 25e9; };
const auto most = [](int, int) { return 0.9; };

std::vector<std::string> not_well(const Report& report) {
  std::vector<std::string> found;
  for (const auto& verdict : judge(report, {}))
    if (verdict.grade != Grade::ok) found.push_back(verdict.host + ": " + verdict.reasons.front().check);
  return found;
}

TEST(Network, AnEvenOneIsWell) { EXPECT_TRUE(not_well(report_with_links(16, even, most)).empty()); }

TEST(Network, ANodeWithSlowLinksIsNamed) {
  const auto report = report_with_links(16, [](int a, int b) { return a == 5 || b == 5 ? 5e9 : 25e9; }, most);
  EXPECT_EQ(not_well(report), std::vector<std::string>{"n5: network"});
}

TEST(Network, MpiThatTakesAnotherNetworkOnOneNodeIsNamed) {
  const auto report = report_with_links(16, even, [](int a, int b) { return a == 5 || b == 5 ? 0.05 : 0.9; });
  EXPECT_EQ(not_well(report), std::vector<std::string>{"n5: mpi"});
}

TEST(Network, MpiThatTakesAnotherNetworkEverywhereIsNamed) {
  const auto report = report_with_links(16, even, [](int, int) { return 0.05; });
  EXPECT_EQ(not_well(report), std::vector<std::string>{"network: mpi"});
}

TEST(Network, WrongSumsAreNamedInTheProofsWords) {
  auto report = tests::made_up_report(3);
  report.collectives = {{"node", "n0", 4, {{{8}, {1e-5}}}, ""}, {"all", "nodes", 12, {}, "data group of rank 0 on n1: a wrong sum"}};
  EXPECT_EQ(not_well(report), std::vector<std::string>{"all nodes: collectives"});
}

}  // namespace
}  // namespace flotilla::bench
