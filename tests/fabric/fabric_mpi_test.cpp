#include "flotilla/fabric/fabric.hpp"

#include <gtest/gtest.h>

#include "comm/world_fixture.hpp"
#include "flotilla/fabric/collectives.hpp"

namespace flotilla::fabric {
namespace {

using MeasureLinks = comm::WorldTest;

LinkTest short_test() { return {{{8}, {64 << 10}}, true, true, Seconds{1e-4}, Seconds{120}}; }

std::vector<std::vector<LinkPair>> rounds(int ranks) {
  std::vector<std::vector<LinkPair>> all;
  for (int a = 0; a < ranks; ++a)
    for (int b = a + 1; b < ranks; ++b) all.push_back({{Rank{a}, Rank{b}}});
  return all;
}

TEST_F(MeasureLinks, EveryPairByEveryTransport) {
  const auto results = measure_links(world, rounds(world.size()), {"", "tcp", bench::training_transport}, short_test());
  const auto pairs = static_cast<std::size_t>(world.size() * (world.size() - 1) / 2);
  ASSERT_EQ(results.size(), 3 * pairs);
  for (const auto& link : results) {
    EXPECT_EQ(link.refusal, "") << link.transport;
    ASSERT_EQ(link.points.size(), 2u) << link.transport;
    for (const auto& point : link.points) {
      EXPECT_GT(point.latency.value, 0);
      EXPECT_GT(point.stream.value, 0);
      EXPECT_GT(point.both.value, 0);
      EXPECT_EQ(point.put.value > 0, link.transport != bench::training_transport);
    }
  }
}

TEST_F(MeasureLinks, AllRanksHaveTheSameResult) {
  const auto results = measure_links(world, rounds(world.size()), {""}, short_test());
  const auto mine = results.front().points.front().latency.value;
  for (const double theirs : mpi::all_gather(world.control(), mine, Seconds{120})) EXPECT_EQ(theirs, mine);
}

TEST_F(MeasureLinks, ATransportThatIsNotThereIsRefusedAndTheNextIsMeasured) {
  const auto results = measure_links(world, {{{Rank{0}, Rank{1}}}}, {"no_such_transport", "tcp"}, short_test());
  ASSERT_EQ(results.size(), 2u);
  EXPECT_NE(results[0].refusal, "");
  EXPECT_EQ(results[1].refusal, "");
}

using MeasureCollectives = comm::WorldTest;

TEST_F(MeasureCollectives, EveryLevelIsProvedAndTimed) {
  std::vector<Rank> all;
  for (int r = 0; r < world.size(); ++r) all.push_back(Rank{r});
  const auto reports = measure_collectives(world, {{"node", "n0", {Rank{0}, Rank{1}}}, {"all", "nodes", all}}, {{8}, {64 << 10}},
                                           Seconds{0.02}, Seconds{120});
  ASSERT_EQ(reports.size(), 2u);
  for (const auto& report : reports) {
    EXPECT_EQ(report.refusal, "");
    ASSERT_EQ(report.points.size(), 2u);
    for (const auto& point : report.points) EXPECT_GT(point.time.value, 0);
  }
  EXPECT_EQ(reports[1].ranks, world.size());
}

}  // namespace
}  // namespace flotilla::fabric
