#include "flotilla/files/plan_file.hpp"

#include <gtest/gtest.h>

#include "flotilla/files/text_file.hpp"
#include "plan/random_plan.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace flotilla::files::plan_file_test {
namespace {

using tests::expect_refused;
using tests::replaced;

plan::Plan example() { return plan::even_plan(model::built_in("gpt2-mini"), 64, 16, Precision::bf16, 2, 2, 2, 4); }

void refused(std::string_view from, std::string_view to, std::string_view part, std::string_view other) {
  const std::string text = replaced(plan_to_json(example()), from, to);
  expect_refused([&] { plan_from_json(text, "p.json"); }, part, other, "p.json");
}

TEST(PlanFile, RandomPlansRoundTrip) {
  std::mt19937 random{1};
  for (int i = 0; i < 200; ++i) {
    plan::Plan plan = plan::testing::random_plan(random);
    plan.model.norm_epsilon = std::uniform_real_distribution{1e-9, 1e-3}(random);
    plan.model.name = "a \"name\"\n\xc3\xa9";
    const std::string text = plan_to_json(plan);
    ASSERT_EQ(plan_from_json(text, "p"), plan) << text;
    ASSERT_EQ(plan_to_json(plan_from_json(text, "p")), text);
    ASSERT_EQ(plan_from_json(Json::parse(text, "p").one_line(), "p"), plan);
  }
}

TEST(PlanFile, AdaptersRoundTrip) {
  auto plan = plan::even_plan(model::built_in("llama-tiny"), 16, 4, Precision::fp32, 1, 1, 1, 1);
  plan.model.lora = {4, 6.5, {model::Linear::qkv, model::Linear::down}, 3, 2};
  const auto text = plan_to_json(plan);
  EXPECT_NE(text.find("attention.qkv"), std::string::npos);
  EXPECT_EQ(plan_from_json(text, "plan.json"), plan);
}

TEST(PlanFile, IsWrittenForPeople) {
  const std::string text = plan_to_json(example());
  EXPECT_NE(text.find("\n      \"layers\": [0, 3],\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n        {\"device_type\": \"\", \"zone\": \"\", \"tensor_parallel\": 2, \"devices\": [0, 1], \"quanta\": 1, "
                      "\"sequences\": 8},\n"),
            std::string::npos)
      << text;
}

TEST(PlanFile, ReadsWhatItWritesOnDisk) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "plan.json";
  write_plan(path, example());
  EXPECT_EQ(read_plan(path), example());
  write_text(path, "{");
  expect_refused([&] { read_plan(path); }, path.string() + ":1:2: not JSON");
}

TEST(PlanFile, OptionalKeysHaveDefaults) {
  const plan::Plan plan = plan_from_json(R"({"format": "flotilla-plan", "version": 1, "model": "opt-tiny", "length": 32, "global_batch": 4,
    "precision": "fp32", "stages": [{"layers": [0, 4], "replicas": [{"quanta": 2, "sequences": 4}]}]})",
                                         "p");
  EXPECT_EQ(plan.model, model::built_in("opt-tiny"));
  EXPECT_EQ(plan.schedule, plan::ScheduleKind::one_f_one_b);
  EXPECT_EQ(plan.quantum, 1);
  EXPECT_EQ(plan.stages[0].recompute, plan::Recompute::none);
  EXPECT_TRUE(plan.stages[0].replicas[0].devices.empty());
}

TEST(PlanFile, ThePageShowsAValidPlan) {
  const std::string page = read_text(std::filesystem::path{FLOTILLA_FORMATS} / "plan.md");
  const plan::Plan plan = plan_from_json(tests::json_block(page), "plan.md");
  EXPECT_GT(plan.stages.size(), 1u);
  for (const std::string& key : Json::parse(plan_to_json(plan), "p").keys())
    EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << key;
}

TEST(PlanFile, RefusesByPointer) {
  refused("\"flotilla-plan\"", "\"flotilla-profile\"", "/format: ", "flotilla-plan");
  refused("\"version\": 1", "\"version\": 7", "/version: version 7 is unknown", "reads version 1");
  refused("\"version\": 1", "\"version\": 1.5", "/version: ", "integer");
  refused("\"quantum\": 4", "\"quantm\": 4", "unknown key 'quantm'", "did you mean 'quantum'");
  refused("\"length\": 64", "\"length\": -64", "/length: is -64", "expected 1 to 256");
  refused("\"length\": 64", "\"length\": 99999999999", "/length: ", "at most 2147483647");
  refused("\"length\": 64", "\"length\": \"64\"", "/length: ", "the string '64'");
  refused("[0, 3]", "[0, 2]", "/stages/1/layers: ", "starts at layer 3, expected 2");
  refused("[0, 3]", "[0, 3, 4]", "/stages/0/layers: ", "two layers");
  refused("\"devices\": [2, 3]", "\"devices\": [2, 2]", "/stages/0/replicas/1/devices/1: ", "rank 2 again");
  refused("\"devices\": [2, 3]", "\"devices\": [2, -3]", "/stages/0/replicas/1/devices/1: ", "at least 0");
  refused("\"sequences\": 8", "\"sequences\": 12", "/stages/0/replicas: handle 20", "16");
  refused("\"1f1b\"", "\"2f2b\"", "/schedule: '2f2b'", "gpipe, 1f1b");
  refused("\"bf16\"", "\"fp8\"", "/precision: 'fp8'", "fp32, bf16 or fp16");
  refused("\"recompute\": \"none\"", "\"recompute\": null", "/stages/0/recompute: ", "expected a string, got null");
  refused("\"heads\": 8", "\"heads\": 7", "/model: ", "heads");
  refused("\"heads\": 8", "\"haeds\": 8", "/model: unknown key 'haeds'", "'heads'");
  refused("\"activation\": \"gelu_tanh\"", "\"activation\": \"silu\"", "/model/activation: 'silu'", "relu");
  refused("\"blocks\": 4", "\"blocks\": 4e300", "/model/blocks: ", "integer");
  refused("\"global_batch\": 16,", "", "key 'global_batch' is missing", "p.json: ");
}

TEST(PlanFile, AnEmbeddedPlanNamesItsWholePlace) {
  const std::string manifest = "{\"plan\": " + replaced(plan_to_json(example()), "\"length\": 64", "\"length\": 0") + "}";
  expect_refused([&] { plan_from_json(Json::parse(manifest, "m.json").at("plan")); }, "m.json: /plan/length: is 0");
  const std::string good = "{\"plan\": " + plan_to_json(example()) + "}";
  EXPECT_EQ(plan_from_json(Json::parse(good, "m.json").at("plan")), example());
}

TEST(PlanFile, AModelMayBeABuiltInName) {
  EXPECT_EQ(model_from_json(Json::parse("\"gpt2\"", "p")), model::built_in("gpt2"));
  expect_refused([] { model_from_json(Json::parse("\"gpt3\"", "p")); }, "p: ", "gpt3");
  for (const std::string& name : model::built_in_names())
    EXPECT_EQ(model_from_json(Json::parse(model_to_json(model::built_in(name)), "p")), model::built_in(name));
}

}  // namespace
}  // namespace flotilla::files::plan_file_test
