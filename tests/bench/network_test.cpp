#include <gtest/gtest.h>

#include "flotilla/bench/fabric.hpp"
#include "flotilla/bench/fabric_links.hpp"
#include "made_up.hpp"

namespace flotilla::bench {
namespace {

/// Links of all first pairs; `rate` of a link and of MPI's share of it.
template <class Rate, class Share>
BenchReport report_with_links(int nodes, Rate rate, Share share) {
  auto report = tests::made_up_report(nodes);
  std::vector<NodePlace> places;
  for (const auto& node : report.nodes) places.push_back({node.host, "", ""});
  for (const auto& [a, b] : first_pairs(places)) {
    const auto& from = report.nodes[static_cast<std::size_t>(a)].host;
    const auto& to = report.nodes[static_cast<std::size_t>(b)].host;
    for (const bool mpi : {false, true})
      report.links.push_back({from,
                              to,
                              mpi ? training_transport : "",
                              false,
                              {{{8}, {2e-6}, {4e6}, {}, {}}, {{1 << 20}, {1e-4}, {rate(a, b) * (mpi ? share(a, b) : 1)}, {}, {}}},
                              ""});
  }
  return report;
}

const auto even = [](int, int) { return 25e9; };
const auto most = [](int, int) { return 0.9; };

std::vector<std::string> not_well(const BenchReport& report) {
  std::vector<std::string> found;
  for (const auto& verdict : judge(report, {}))
    if (verdict.grade != Grade::ok) found.push_back(verdict.host + ": " + verdict.reasons.front().check);
  return found;
}

TEST(Network, AnEvenOneIsWell) { EXPECT_TRUE(not_well(report_with_links(16, even, most)).empty()); }

TEST(Network, ANodeWithSlowLinksIsNamed) {
  const auto report = report_with_links(
      16, [](int a, int b) { return a == 5 || b == 5 ? 5e9 : 25e9; }, most);
  EXPECT_EQ(not_well(report), std::vector<std::string>{"n5: network"});
}

TEST(Network, OfBusyNodesOnlyAHalvedRateCounts) {
  auto report = report_with_links(
      16, [](int a, int b) { return a == 5 || b == 5 ? 15e9 : 25e9; }, [](int a, int b) { return a == 5 || b == 5 ? 0.05 : 0.9; });
  EXPECT_EQ(not_well(report), std::vector<std::string>{"n5: network"});
  report.nodes[5].others = 0.4;
  EXPECT_EQ(not_well(report), std::vector<std::string>{"n5: busy"});
  auto slow = report_with_links(
      16, [](int a, int b) { return a == 5 || b == 5 ? 5e9 : 25e9; }, most);
  slow.nodes[5].others = 0.4;
  EXPECT_EQ(not_well(slow), std::vector<std::string>{"n5: network"}) << "no company explains a fifth";
}

/// Its peers send again what it did not get: half of their links lose, all of its own.
TEST(Network, ANodeThatLosesPacketsIsNamedAndItsPeersAreNot) {
  for (const int nodes : {6, 64, 4096}) {
    auto report = report_with_links(nodes, even, most);
    for (auto& link : report.links) link.segments = 5000, link.resent = link.from == "n3" || link.to == "n3" ? 100 : 1;
    EXPECT_EQ(not_well(report), std::vector<std::string>{"n3: losses"}) << nodes;
    EXPECT_EQ(judge(report, {})[3].grade, Grade::drain);
    EXPECT_NE(judge(report, {})[3].reasons[0].what.find("2.0 % of TCP's segments are sent again"), std::string::npos)
        << judge(report, {})[3].reasons[0].what;
  }
  auto report = report_with_links(64, even, most);
  for (auto& link : report.links) link.segments = 5000, link.resent = 3;
  EXPECT_TRUE(not_well(report).empty()) << "as few are sent again on a sound network";
  for (auto& link : report.links) link.resent = 100;
  EXPECT_EQ(not_well(report), std::vector<std::string>{"network: losses"});
}

TEST(Network, ANodeWithWrongSumsIsDrained) {
  auto report = report_with_links(16, even, most);
  report.collectives = {{"all", "nodes", 16, {}, "a sum of known values came out wrong"},
                        {faulty_member, "n5", 1, {}, "sums come out wrong wherever it takes part"}};
  EXPECT_EQ(not_well(report), (std::vector<std::string>{"n5: wrong sums", "all nodes: collectives"}));
  EXPECT_EQ(judge(report, {})[5].grade, Grade::drain);
}

TEST(Network, MpiThatTakesAnotherNetworkOnOneNodeIsNamed) {
  const auto report = report_with_links(16, even, [](int a, int b) { return a == 5 || b == 5 ? 0.05 : 0.9; });
  EXPECT_EQ(not_well(report), std::vector<std::string>{"n5: mpi"});
}

TEST(Network, MpiThatTakesAnotherNetworkEverywhereIsNamed) {
  const auto report = report_with_links(16, even, [](int, int) { return 0.05; });
  EXPECT_EQ(not_well(report), std::vector<std::string>{"network: mpi"});
}

LinkReport link(const char* transport, bool alone, std::vector<LinkPoint> points, const char* refusal = "") {
  return {"n1", "n2", transport, alone, std::move(points), refusal};
}

TEST(FabricLinks, StandBesideEachOtherAtSizesOfBoth) {
  const LinkPoint small{{8}, {1e-6}, {8e6}, {}, {}}, large{{1 << 20}, {1e-4}, {1e10}, {}, {}}, larger{{4 << 20}, {4e-4}, {1e10}, {}, {}};
  const LinkPoint slow{{1 << 20}, {2e-4}, {4e9}, {}, {}}, slow_small{{8}, {5e-6}, {1e6}, {}, {}};
  const auto links =
      fabric_links({link("", false, {small, slow}), link("mpi", false, {small, slow}), link("", true, {small, large, larger}),
                    link("tcp", true, {slow_small}), link("mpi", true, {slow_small, slow})});
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0], (FabricLink{"n1", "n2", {{{8}, {1e-6}, {5e-6}, {8e6}, {1e6}}, {{1 << 20}, {1e-4}, {2e-4}, {1e10}, {4e9}}}, ""}));
  EXPECT_DOUBLE_EQ(mpi_share(links[0]), 0.4);
}

TEST(FabricLinks, OfOneThatOnlyOneCouldMeasureIsRefusedInItsWords) {
  const LinkPoint small{{8}, {1e-6}, {8e6}, {}, {}};
  EXPECT_EQ(fabric_links({link("", false, {small}), link("mpi", false, {}, "no answer")}),
            (std::vector<FabricLink>{{"n1", "n2", {}, "no answer"}}));
  EXPECT_TRUE(fabric_links({link("", false, {small})}).empty());
  EXPECT_EQ(mpi_share({"n1", "n2", {}, "no answer"}), 0);
}

TEST(FabricLinks, SharesInsideNodesAreNoSiblingsOfThoseBetween) {
  const auto share = [](const char* from, const char* to, double mpi) {
    return FabricLink{from, to, {{{8}, {1e-6}, {1e-6}, {1e9}, {mpi * 1e9}}}, ""};
  };
  EXPECT_TRUE(low_shares({share("n1", "n1", 0.1), share("n2", "n2", 0.1), share("n1", "n2", 0.9)}).everywhere.empty());
  const auto low =
      low_shares({share("n1", "n2", 0.9), share("n2", "n3", 0.8), share("n1", "n3", 0.9), share("n3", "n4", 0.2), share("n1", "n4", 0.1)});
  ASSERT_EQ(low.hosts.size(), 1u);
  EXPECT_EQ(low.hosts[0].first, "n4");
  EXPECT_NE(low.hosts[0].second.find("where 80 % is the median"), std::string::npos) << low.hosts[0].second;
}

TEST(Network, WrongSumsAreNamedInTheProofsWords) {
  auto report = tests::made_up_report(3);
  report.collectives = {{"node", "n0", 4, {{{8}, {1e-5}}}, ""}, {"all", "nodes", 12, {}, "data group of rank 0 on n1: a wrong sum"}};
  EXPECT_EQ(not_well(report), std::vector<std::string>{"all nodes: collectives"});
}

}  // namespace
}  // namespace flotilla::bench
