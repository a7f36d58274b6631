#include "flotilla/health/collect.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "support/temporary_folder.hpp"

namespace flotilla::health {
namespace {

using flotilla::tests::TemporaryFolder;

bench::NodeReport node(const std::string& host, bool done, const std::string& doing = "") {
  bench::NodeReport report;
  report.host = host;
  report.type = "1 x CPU";
  report.done = done;
  report.doing = doing;
  return report;
}

TEST(Collect, SilentNodesAreLostAndTheOthersReport) {
  const TemporaryFolder folder;
  publish(folder, node("n1", true));
  publish(folder, node("n2", false, "disk"));
  std::string waited;
  const auto report = collect(folder, {{"n1", "n2", "n3"}, 0}, {Seconds{0.3}, [&](const std::string& hosts) { waited = hosts; }});
  ASSERT_EQ(report.nodes.size(), 1u);
  EXPECT_EQ(report.nodes[0].host, "n1");
  EXPECT_EQ(report.lost, (std::vector<bench::LostNode>{{"n2", "disk"}, {"n3", ""}}));
  EXPECT_FALSE(waited.empty());
}

TEST(Collect, WithoutNamesNodesAreCounted) {
  const TemporaryFolder folder;
  publish(folder, node("n1", true));
  const auto report = collect(folder, {{}, 3}, {Seconds{0.1}, {}});
  EXPECT_EQ(report.lost, (std::vector<bench::LostNode>{{"2 nodes", ""}}));
}

TEST(Collect, WaitsForWhoeverStillReports) {
  const TemporaryFolder folder;
  publish(folder, node("n1", false, "hardware threads"));
  std::jthread slow{[&] {
    // Longer in all than the silence that is allowed; the waiting side gives a sign of life a minute.
    for (const char* test : {"memory bandwidth", "disk"}) {
      std::this_thread::sleep_for(std::chrono::milliseconds{300});
      publish(folder, node("n1", false, test));
    }
    publish(folder, node("n1", true));
  }};
  const auto report = collect(folder, {{"n1"}, 0}, {Seconds{60}, {}});
  ASSERT_EQ(report.nodes.size(), 1u);
  EXPECT_TRUE(report.lost.empty());
}

}  // namespace
}  // namespace flotilla::health
