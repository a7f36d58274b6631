#include "flotilla/bench/series.hpp"

#include <gtest/gtest.h>

#include "made_up.hpp"

namespace flotilla::bench {
namespace {

Series latencies(double first, double last, std::vector<std::string> hosts = {"n0", "n1"}) {
  return {"osu_latency",
          "7.5",
          quantity::latency,
          unit::seconds,
          std::move(hosts),
          "osu.txt",
          {{{8}, "", first}, {{32}, "", last}, {{2 << 20}, "", 1e-3}},
          ""};
}

BenchReport report_with_links() {
  auto report = tests::made_up_report(2);
  report.links = {{"n0", "n1", "", true, {{{8}, {1e-6}, {1e6}, {}, {}}}, ""},
                  {"n0", "n1", training_transport, false, {{{8}, {9e-6}, {9e6}, {}, {}}}, ""},
                  {"n0", "n1", training_transport, true, {{{8}, {2e-6}, {2e6}, {}, {}}, {{2 << 20}, {3e-3}, {3e9}, {}, {}}}, ""}};
  report.collectives = {{"all", "nodes", 2, {{{8}, {5e-6}}, {{1 << 20}, {5e-3}}}, ""}};
  return report;
}

TEST(OwnPoint, IsTheTrainingsMessagesAloneBetweenTheSameHosts) {
  const auto report = report_with_links();
  EXPECT_EQ(own_point(report, latencies(1e-6, 1e-6)), (SeriesPoint{{8}, "", 2e-6})) << "the smallest size of both";
  EXPECT_EQ(own_point(report, latencies(1e-6, 1e-6, {"n1", "n0"})), (SeriesPoint{{8}, "", 2e-6}));
  EXPECT_EQ(own_point(report, latencies(1e-6, 1e-6, {"n0", "n7"})), std::nullopt);
  EXPECT_EQ(own_point(report, latencies(1e-6, 1e-6, {})), std::nullopt) << "nobody knows between whom";
  auto rates = latencies(1e9, 2e9);
  rates.quantity = quantity::one_way;
  EXPECT_EQ(own_point(report, rates), (SeriesPoint{{2 << 20}, "", 3e9})) << "the largest size of both";
  rates.quantity = quantity::all_reduce;
  EXPECT_EQ(own_point(report, rates), (SeriesPoint{{8}, "", 5e-6}));
}

TEST(CompareSeries, TheMedianOfThePointsOfBothCounts) {
  BenchReport before, after;
  before.imported = {latencies(1e-6, 1e-6)};
  after.imported = {latencies(5e-6, 1.01e-6)};
  auto changes = compare(before, after);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].beyond) << "one point of three";
  after.imported = {latencies(1.3e-6, 1.2e-6)};
  changes = compare(before, after);
  EXPECT_TRUE(changes[0].beyond);
  EXPECT_EQ(changes[0].host, "n0, n1");
  EXPECT_NE(changes[0].in_words.find("osu_latency, latency 1.00 ms at 2.00 MiB"), std::string::npos) << changes[0].in_words;
  EXPECT_NE(changes[0].in_words.find("20 % worse in the median of 3 points"), std::string::npos) << changes[0].in_words;
}

TEST(CompareSeries, MoreBytesASecondAreBetterAndOthersHostsAreOthers) {
  BenchReport before, after;
  before.imported = {latencies(1e9, 1e9)};
  before.imported[0].unit = unit::bytes_per_second;
  after = before;
  for (auto& point : after.imported[0].points) point.value *= 1.5;
  EXPECT_NEAR(compare(before, after).at(0).worse, -0.5, 1e-9);
  after.imported[0].hosts = {"n8", "n9"};
  EXPECT_TRUE(compare(before, after).empty());
}

TEST(CompareSeries, OwnLinksAndAllReducesAreComparedToo) {
  const auto before = report_with_links();
  auto after = before;
  for (auto& point : after.links[2].points) point.stream.value /= 2, point.latency = point.latency * 1.1;
  after.links[1].points[0].stream.value /= 9;
  after.collectives[0].points[1].time = after.collectives[0].points[1].time * 3;
  after.collectives[0].points[0].time = after.collectives[0].points[0].time * 3;
  std::vector<std::string> beyond;
  for (const auto& change : compare(before, after))
    if (change.beyond) beyond.push_back(change.host + ": " + change.what);
  EXPECT_EQ(beyond, (std::vector<std::string>{"all-reduce: all-reduce, all nodes", "n0, n1: link, one way by mpi"}))
      << "worst first; links with others at work scatter";
}

TEST(ImportedFault, IsAFindingOfItsProgram) {
  auto report = tests::made_up_report(3);
  report.imported = {latencies(1e-6, 1e-6)};
  EXPECT_EQ(judge(report, {}).size(), 3u);
  report.imported[0].fault = "3 wrong values";
  const auto verdicts = judge(report, {});
  ASSERT_EQ(verdicts.size(), 4u);
  EXPECT_EQ(verdicts.back().host, "osu_latency");
  EXPECT_EQ(verdicts.back().reasons.at(0).what, "latency: 3 wrong values (osu.txt)");
}

}  // namespace
}  // namespace flotilla::bench
