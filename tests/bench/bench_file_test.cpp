#include "flotilla/files/bench_file.hpp"

#include <gtest/gtest.h>

#include "made_up.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::files {
namespace {

using bench::tests::made_up_report;
using flotilla::tests::expect_refused;
using flotilla::tests::TemporaryFolder;

bench::BenchReport full_report() {
  auto report = made_up_report(3);
  report.nodes[1].failures = {{"disk", "only 3 B are \"free\""}};
  report.nodes[1].doing = "disk";
  report.nodes[2].partition = "gpu";
  report.nodes[2].clock_synchronized = false;
  report.lost = {{"n9", "known-answer step"}};
  report.nodes[2].network_switch = "leaf3";
  report.links = {{"n0", "n1", "tcp", true, {{{8}, {1e-5}, {1e6}, {2e6}, {3e6}}, {{1 << 20}, {1e-3}, {1e9}, {}, {}}}, ""},
                  {"n0", "n1", "rc", false, {}, "no such transport"}};
  report.collectives = {{"node", "n0", 4, {{{8}, {1e-5}}}, ""}, {"all", "all nodes", 12, {}, "wrong sums"}};
  report.nodes[0].others = 0.25;
  report.left_out = {"inside n0 by tcp: messages of 64.0 MiB"};
  report.nodes[0].card = {{"gpt2", "bf16", 1024, 16, 2, "data 2", 9, 812.5, 900, 350, "processors and memory (RAPL)", 4, "", {1 << 30}, ""},
                          {"gpt2-xl", "", 0, 0, 0, "", 0, 0, 0, 0, "", 0, "", {}, "no plan fits"}};
  report.nodes[0].soak = bench::Soak{{7200},
                                     {60},
                                     "SIGTERM",
                                     100,
                                     1,
                                     {{{3}, "GPU 0 (NVIDIA H100)", "01", "00"}},
                                     {{{10}, 5, {5e-3}, 0.5, 61, 3e9}, {{20}, 5, {5e-3}, -1, 0, 0, 4, {0.25}}},
                                     3,
                                     {},
                                     0,
                                     2,
                                     5,
                                     {},
                                     1};
  report.imported = {
      {"osu_bw", "7.5", bench::quantity::one_way, bench::unit::bytes_per_second, {"n0", "n1"}, "osu.txt", {{{8}, "", 1e6}}, ""},
      {"nvbandwidth", "", "a_test", bench::unit::seconds, {}, "nv.json", {{{}, "row 0, column 1", 1e-6}}, "out of memory"}};
  return report;
}

TEST(BenchFile, ComesBackAsItWas) {
  const auto report = full_report();
  EXPECT_EQ(bench_from_json(bench_to_json(report), "a report"), report);
  const TemporaryFolder folder;
  const auto path = folder.write("n1.json", node_report_to_json(report.nodes[1]));
  EXPECT_EQ(read_node_report(path), report.nodes[1]);
}

TEST(BenchFile, DamageIsRefusedWithItsPlace) {
  auto json = bench_to_json(full_report());
  expect_refused([&] { bench_from_json("{}", "x.json"); }, "x.json", "format");
  const auto at = json.find("\"memory_bandwidth\"");
  json.replace(at, 18, "\"warp_speed\"");
  expect_refused([&] { bench_from_json(json, "x.json"); }, "x.json", "/nodes/0/figures/warp_speed");
}

TEST(BenchFile, OfAnEarlierVersionHasNoMeasurementsOfOthers) {
  auto json = bench_to_json(made_up_report(1));
  const auto at = json.find(",\n  \"imported\": []");
  ASSERT_NE(at, json.npos) << json;
  json.erase(at, std::string{",\n  \"imported\": []"}.size());
  EXPECT_TRUE(bench_from_json(json, "x.json").imported.empty());
}

/// As reports before the card and the soak were.
TEST(BenchFile, OfAnEarlierVersionHasNoLoad) {
  auto json = bench_to_json(made_up_report(1));
  const auto from = json.find(",\n      \"others_share\""), to = json.find('}', from);
  ASSERT_NE(from, json.npos) << json;
  json.erase(from, to - from);
  const auto node = bench_from_json(json, "x.json").nodes.at(0);
  EXPECT_EQ(node.others, -1);
  EXPECT_TRUE(node.card.empty());
  EXPECT_FALSE(node.soak.has_value());
}

TEST(BenchHistory, GrowsAndLeavesOutWhatIsDamaged) {
  const TemporaryFolder folder;
  std::vector<std::string> refused;
  EXPECT_TRUE(read_bench_history(folder / "none", 10, refused).empty());
  for (int run = 0; run < 3; ++run) add_to_bench_history(folder / "history", made_up_report(1, 0, 1));
  folder.write("history/bench-2026-11-22T190000Z.json", "{");
  folder.write("history/notes.txt", "not a report");
  EXPECT_EQ(read_bench_history(folder / "history", 10, refused).size(), 3u);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("2026-11-22"), std::string::npos);
  EXPECT_EQ(read_bench_history(folder / "history", 2, refused).size(), 2u) << "the newest";
}

}  // namespace
}  // namespace flotilla::files
