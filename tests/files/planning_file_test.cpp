#include "flotilla/files/planning_file.hpp"

#include <gtest/gtest.h>

#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/refusal.hpp"
#include "support/text.hpp"

namespace flotilla::files::planning_file_test {
namespace {

std::string example() { return tests::json_block(read_text(std::filesystem::path{FLOTILLA_FORMATS} / "planning.md")); }

TEST(PlanningFile, TheExampleReadsAndWritesBack) {
  const auto planning = planning_from_json(example(), "page");
  ASSERT_TRUE(planning.answer.best && planning.forecast);
  EXPECT_EQ(planning.answer.best->devices, 2);
  EXPECT_EQ(planning.answer.best->iteration, planning.forecast->iteration);
  ASSERT_EQ(planning.answer.alternatives.size(), 1u);
  EXPECT_EQ(planning.answer.alternatives[0].plan.stages.size(), 2u);
  EXPECT_EQ(planning.pool, (search::Pool{{"V100-16", "zone-a", 2, 4}}));
  EXPECT_TRUE(planning.restrictions.equal_replicas);
  const auto written = planning_to_json(planning);
  EXPECT_EQ(planning_to_json(planning_from_json(written, "written")), written);
}

TEST(PlanningFile, EverythingComesBack) {
  auto planning = planning_from_json(example(), "page");
  planning.objective = {search::Goal::energy, {1.25, 300.5, 0.1, 64}};
  planning.restrictions = {true, false, true, false, true};
  planning.pool = {{"A", "", 1, 8}, {"B", "z", 1000000, 1}};
  planning.cut_off = true;
  planning.searched = {0.1};
  auto& answer = planning.answer;
  answer.bound_gap = 0.3, answer.finished = true, answer.considered = 1LL << 40, answer.pruned = 7;
  answer.binding = "devices of \"A\"", answer.space = "all";
  answer.best->moved = Bytes{1LL << 50}, answer.best->value = 0.7;
  answer.alternatives[0].moved = Bytes{3}, answer.alternatives[0].usd.reset(), answer.alternatives[0].reason = "dearer";
  answer.alternatives[0].within_error = true;
  planning.assumed_links = {{"a", "b", cluster::ZoneDistance::world, {1e9}, {0.05}}};
  planning.assumed_networks = {{"A", "z", 8, {2.5e10}}, {"B", "", 1, {1e9}}};
  planning.other_precision = OtherPrecision{Precision::bf16, answer.best->iteration};
  planning.run = search::RunTotals{1000, 4'096'000, {70}, {60}, {80}, 12.5, 3.5, std::nullopt, 1e9};
  planning.idle = {{"A", "z", 3, "slower", answer.alternatives[0]}, {"B", "", 1, "over a limit", std::nullopt}};
  planning.one_more_node = {{{"B", "z", 4, 4}, answer.alternatives[0]}};
  planning.pareto = {answer.alternatives[0]};
  const auto back = planning_from_json(planning_to_json(planning), "written");
  EXPECT_TRUE(back.answer.alternatives[0].within_error);
  EXPECT_EQ(back.assumed_links, planning.assumed_links);
  EXPECT_EQ(back.assumed_networks, planning.assumed_networks);
  EXPECT_EQ(back.other_precision, planning.other_precision);
  EXPECT_EQ(back.run, planning.run);
  ASSERT_EQ(back.idle.value().size(), 2u);
  EXPECT_EQ(back.idle->at(0).reason, "slower");
  EXPECT_EQ(back.idle->at(0).with.value().plan, answer.alternatives[0].plan);
  EXPECT_FALSE(back.idle->at(1).with);
  EXPECT_EQ(back.one_more_node.value().at(0).added, planning.one_more_node->at(0).added);
  EXPECT_EQ(back.pareto.value().size(), 1u);
  EXPECT_EQ(planning_to_json(back), planning_to_json(planning));
  EXPECT_EQ(back.objective, planning.objective);
  EXPECT_EQ(back.restrictions, planning.restrictions);
  EXPECT_EQ(back.pool, planning.pool);
  EXPECT_TRUE(back.cut_off && back.answer.finished);
  EXPECT_EQ(back.searched, planning.searched);
  EXPECT_EQ(back.answer.bound_gap, 0.3);
  EXPECT_EQ(back.answer.considered, 1LL << 40);
  EXPECT_EQ(back.answer.pruned, 7);
  EXPECT_EQ(back.answer.binding, answer.binding);
  EXPECT_EQ(back.answer.space, "all");
  EXPECT_EQ(back.answer.best->plan, answer.best->plan);
  EXPECT_EQ(back.answer.best->moved, Bytes{1LL << 50});
  EXPECT_EQ(back.answer.best->value, 0.7);
  EXPECT_EQ(back.answer.alternatives[0].moved, Bytes{3});
  EXPECT_FALSE(back.answer.alternatives[0].usd);
  EXPECT_EQ(back.answer.alternatives[0].reason, "dearer");
}

TEST(PlanningFile, WithoutAPlanThereIsAReason) {
  Planning planning;
  planning.pool = {{"A", "", 1, 1}};
  planning.answer.no_plan_reason = "too small";
  const auto document = Json::parse(planning_to_json(planning), "written");
  for (const char* key : {"plan", "forecast", "binding", "moved_bytes"}) EXPECT_TRUE(document.at(key).is_null()) << key;
  EXPECT_TRUE(document.at("objective").at("value").is_null());
  EXPECT_EQ(document.get_double("bound_gap"), 1);
  const auto back = planning_from_json(document);
  EXPECT_FALSE(back.answer.best || back.forecast);
  EXPECT_EQ(back.answer.no_plan_reason, "too small");
}

TEST(PlanningFile, RefusesByPlace) {
  const auto refused = [](const std::string& what, const std::string& by, const std::string& message) {
    tests::expect_refused([&] { planning_from_json(tests::replaced(example(), what, by), "p"); }, message);
  };
  refused("\"version\": 1", "\"version\": 2", "p: /version");
  refused("\"flotilla-planning\"", "\"flotilla-plan\"", "p: /format");
  refused("\"goal\": \"throughput\"", "\"goal\": \"thruoghput\"",
          "p: /objective/goal: no goal is called 'thruoghput'; did you mean 'throughput'?");
  refused("[\"equal-replicas\"]", "[\"equal\"]", "p: /restrictions/0: no restriction is called 'equal'");
  refused("\"bound_gap\": 0.42", "\"bound_gap\": 2", "p: /bound_gap");
  refused("\"count\": 2", "\"count\": 0", "p: /pool/0/count");
  refused("\"pruned\": 32", "\"prund\": 32", "did you mean");
  refused("\"layers\": [0, 3]", "\"layers\": [0, 2]", "/alternatives/0/plan");
}

}  // namespace
}  // namespace flotilla::files::planning_file_test
