#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "flotilla/base/text.hpp"
#include "flotilla/files/sailor.hpp"
#include "support/published_data.hpp"
#include "support/refusal.hpp"

namespace flotilla::files::sailor_export_test {
namespace {

namespace fs = std::filesystem;

plan::Plan read_back(const std::string& text, const model::Config& model) {
  return sailor_plan_from_json(Json::parse(text, "back.json"), model, std::nullopt);
}

bool has_equal_replicas(const plan::Plan& plan) {
  return std::ranges::all_of(plan.stages, [&](const auto& s) { return s.replicas.size() == plan.stages.front().replicas.size(); });
}

void expect_round_trip(const plan::Plan& plan) {
  std::vector<SailorSpelling> spellings{SailorSpelling::counted};
  if (has_equal_replicas(plan)) spellings.push_back(SailorSpelling::pipeline_list);
  for (const auto spelling : spellings)
    EXPECT_EQ(read_back(sailor_plan_to_json(plan, "plan", {.spelling = spelling}), plan.model), plan) << plan::summary(plan);
}

model::Config llama() { return *sailor_model("LLAMA-3-8"); }

/// Two stages of two replicas: microbatches of 2 of 16 sequences.
plan::Plan small() {
  plan::Plan plan;
  plan.model = model::built_in("gpt2-tiny");  // four layers
  plan.length = plan.model.positions;
  plan.global_batch = 16;
  plan.quantum = 2;
  plan.stages = {{0, 3, plan::Recompute::none, {{"A", "z", 1, {}, 1, 8}, {"B", "y", 2, {}, 1, 8}}},
                 {3, 4, plan::Recompute::none, {{"A", "z", 1, {}, 1, 8}, {"A", "z", 1, {}, 1, 8}}}};
  return plan;
}

int up_to(std::mt19937& random, int most) { return 1 + static_cast<int>(random() % static_cast<unsigned>(most)); }

/// As plans are dealt by hand: whole microbatches where that leaves nobody idle, else single sequences; the first replicas take the odd
/// ones.
plan::Plan random_plan(std::mt19937& random) {
  plan::Plan plan;
  plan.model = random() % 3 == 0 ? llama() : model::built_in(random() % 2 ? "gpt2-mini" : "opt-350m");
  plan.length = plan.model.positions;
  const int degree = up_to(random, 6), microbatch = up_to(random, 8);
  plan.global_batch = std::max(degree, microbatch) + up_to(random, 60);
  const bool whole = plan.global_batch % microbatch == 0 && plan.global_batch / microbatch >= degree;
  plan.quantum = whole ? microbatch : 1;
  const char* const types[] = {"A100-40", "V100-16", "GH-96"};
  const char* const zones[] = {"us-west1-b", "us-central1-a"};
  for (int first = 0; first < plan.model.layers();) {
    plan::Stage stage{first, std::min(plan.model.layers(), first + up_to(random, 8)), plan::Recompute::none, {}};
    for (int r = 0; r < degree; ++r) {
      const int quanta = plan.global_batch / plan.quantum;
      stage.replicas.push_back({types[random() % 3],
                                zones[random() % 2],
                                1 << random() % 3,
                                {},
                                microbatch / plan.quantum,
                                plan.quantum * (quanta / degree + (r < quanta % degree ? 1 : 0))});
    }
    first = stage.last_layer;
    plan.stages.push_back(stage);
  }
  return plan;
}

TEST(SailorExport, SaysItAsTheSimulatorReadsIt) {
  const auto document = Json::parse(sailor_plan_to_json(small(), "plan", {.per_node = {{"A", 4}}}), "out");
  const Json pipeline = document.at("pipeline_list").items().front();
  EXPECT_EQ(pipeline.get_int("num_stages"), 2);
  EXPECT_EQ(pipeline.at("layers_per_stage").one_line(), "[[0, 1, 2], [3]]");
  EXPECT_EQ(pipeline.at("tmp_per_stage").one_line(),
            R"([[[[["A", 4, "z"]], 1], [[["B", 2, "y"]], 2]], [[[["A", 4, "z"]], 1], [[["A", 4, "z"]], 1]]])");
  EXPECT_EQ(pipeline.at("dp").one_line(), "[2, 2]");
  EXPECT_EQ(document.get_int("mbs"), 2);
  EXPECT_EQ(document.get_int("gbs"), 16);
  EXPECT_EQ(document.get_string("zone"), "z");
  EXPECT_EQ(document.get_int("N"), 2);  // three of A in one node, B in its own
  EXPECT_TRUE(document.at("real").is_null());
  EXPECT_TRUE(document.at("max_mem").is_null());
}

TEST(SailorExport, CountsEqualReplicas) {
  const auto document = Json::parse(sailor_plan_to_json(small(), "plan", {.spelling = SailorSpelling::counted}), "out");
  EXPECT_EQ(document.get_int("global_batch"), 16);
  EXPECT_EQ(document.at("plan").get_int("microbatch_size"), 2);
  const auto stages = document.at("plan").at("stages").items();
  EXPECT_EQ(stages[0].at("replicas").size(), 2u);
  EXPECT_EQ(stages[1].one_line(), R"({"first_layer": 3, "last_layer": 3, "replicas": )"
                                  R"([{"device_type": "A", "zone": "z", "tensor_parallel": 1, "count": 2}]})");
}

TEST(SailorExport, AReplicaOfSeveralNodesListsThem) {
  auto plan = small();
  plan.model.heads = 8;
  plan.stages[0].replicas[1].tensor_parallel = 6;
  const auto text = sailor_plan_to_json(plan, "plan", {.per_node = {{"A", 4}, {"B", 4}}});
  EXPECT_NE(Json::parse(text, "out").one_line().find(R"([[["B", 4, "y"], ["B", 2, "y"]], 6])"), std::string::npos) << text;
  EXPECT_EQ(Json::parse(text, "out").get_int("N"), 1 + 2);
  EXPECT_EQ(read_back(text, plan.model), plan);
}

TEST(SailorExport, ZonesThatArentNamed) {
  auto plan = small();
  plan.stages[0].replicas[0].zone = "";
  EXPECT_EQ(read_back(sailor_plan_to_json(plan, "plan"), plan.model).stages[0].replicas[0].zone, "us-central1-a");
  EXPECT_EQ(read_back(sailor_plan_to_json(plan, "plan", {.zone = "z"}), plan.model), small());
}

TEST(SailorExport, RandomPlansComeBack) {
  std::mt19937 random{11};
  for (int i = 0; i < 400; ++i) expect_round_trip(random_plan(random));
}

TEST(SailorExport, ALastNormOfItsOwnGoesWithTheHead) {
  const auto plan_of = [](int cut) {
    auto plan = small();
    plan.model = llama();
    plan.length = plan.model.positions;
    plan.stages[0].last_layer = plan.stages[1].first_layer = cut;
    plan.stages[1].last_layer = 34;
    return plan;
  };
  for (const int cut : {1, 20, 33}) expect_round_trip(plan_of(cut));
  const auto layers = Json::parse(sailor_plan_to_json(plan_of(33), "plan"), "out").at("pipeline_list").items()[0].at("layers_per_stage");
  EXPECT_EQ(layers.items()[0].size(), 33u);
  EXPECT_EQ(layers.items()[1].one_line(), "[33, 34]");
}

TEST(SailorExport, WhoTakesTheOddMicrobatchIsNotSaid) {
  auto plan = small();
  plan.global_batch = 18;
  plan.stages[0].replicas[1].sequences = 10;
  plan.stages[1].replicas[0].sequences = 10;
  auto back = read_back(sailor_plan_to_json(plan, "plan"), plan.model);
  EXPECT_EQ(back.stages[0].replicas[0].sequences, 10);
  std::swap(back.stages[0].replicas[0].sequences, back.stages[0].replicas[1].sequences);
  EXPECT_EQ(back, plan);
}

TEST(SailorExport, RefusesWhatTheFormatCannotSay) {
  const auto refused = [](const auto& change, const char* place, const char* advice) {
    auto plan = small();
    change(plan);
    try {
      sailor_plan_to_json(plan, "p.json");
      ADD_FAILURE() << place << " was not refused";
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::unavailable) << what;
      EXPECT_TRUE(what.starts_with(text("p.json: ", place, ": "))) << what;
      EXPECT_NE(what.find(advice), std::string::npos) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  };
  const char* const restricted = "--restrict one-microbatch-size,equal-replicas";
  const char* const artifact = "--cost-model sailor-artifact";
  refused([](plan::Plan& p) { p.stages[1].replicas[1].quanta = 2; }, "stages[1].replicas[1].quanta", restricted);
  refused([](plan::Plan& p) { p.stages[1].replicas = {{"A", "z", 1, {}, 1, 16}}; }, "stages[1].replicas", restricted);
  refused([](plan::Plan& p) { p.stages[1].replicas[0].sequences = 12, p.stages[1].replicas[1].sequences = 4; },
          "stages[1].replicas[0].sequences", restricted);
  refused([](plan::Plan& p) { p.stages[1].recompute = plan::Recompute::full; }, "stages[1].recompute", artifact);
  refused([](plan::Plan& p) { p.precision = Precision::bf16; }, "precision", artifact);
  refused([](plan::Plan& p) { p.schedule = plan::ScheduleKind::gpipe; }, "schedule", artifact);
  refused([](plan::Plan& p) { p.sequence_parallel = true; }, "sequence_parallel", artifact);
  refused([](plan::Plan& p) { p.length /= 2; }, "length", "--spelling counted");
  refused([](plan::Plan& p) { p.stages[0].replicas[0].device_type = ""; }, "stages[0].replicas[0].device_type", "write it");
  refused(
      [](plan::Plan& p) {
        p.stages[0].replicas = p.stages[1].replicas;
        p.schedule = plan::ScheduleKind::interleaved, p.chunks = 2;
      },
      "schedule", artifact);
  refused([](plan::Plan& p) { p.stages[0].replicas[0].sequences = 6, p.stages[0].replicas[1].sequences = 10; },
          "stages[0].replicas[1].sequences", "5 microbatches");
  auto plan = small();
  plan.global_batch = 15;
  tests::expect_refused([&] { sailor_plan_to_json(plan, "p.json"); }, "p.json: ", "quantum");
}

TEST(SailorExport, TheCountedSpellingSaysMore) {
  auto plan = small();
  plan.length /= 2;
  plan.stages[1].replicas = {{"A", "z", 1, {}, 1, 16}};
  EXPECT_EQ(read_back(sailor_plan_to_json(plan, "plan", {.spelling = SailorSpelling::counted}), plan.model), plan);
}

TEST(SailorExportData, PublishedPlansComeBack) {
  FLOTILLA_SKIP_WITHOUT_DATA("sailor/published_plans.json");
  int read = 0, unequal = 0;
  for (const auto& run : Json::read(tests::published_data("sailor/published_plans.json")).at("runs").items()) {
    const auto plan = sailor_plan_from_json(run, *sailor_model(run.get_string("model")), std::nullopt);
    expect_round_trip(plan);
    ++read;
    if (has_equal_replicas(plan)) continue;
    ++unequal;
    EXPECT_THROW(sailor_plan_to_json(plan, "plan"), Error);
  }
  EXPECT_GE(read, 40);
  EXPECT_GE(unequal, 4);
}

TEST(SailorExportData, MeasuredRunsComeBackWordForWord) {
  FLOTILLA_SKIP_WITHOUT_DATA("sailor/validation");
  int read = 0;
  for (const auto& entry : fs::recursive_directory_iterator{tests::published_data("sailor/validation")}) {
    if (entry.path().extension() != ".json") continue;
    const auto theirs = Json::read(entry.path());
    const auto plan = sailor_plan_from_json(theirs, *sailor_model("OPT-350"), std::nullopt);
    expect_round_trip(plan);
    const std::map<std::string, int> nodes{{"GH-96", 4}, {"Titan-RTX", 8}, {"RTX-2080", 8}, {"RTX-3090", 8}};
    const auto ours = Json::parse(sailor_plan_to_json(plan, "plan", {.per_node = nodes}), "out");
    for (const char* key : {"pipeline_list", "mbs", "gbs", "N", "zone"})
      EXPECT_EQ(ours.at(key).one_line(), theirs.at(key).one_line()) << entry;
    ++read;
  }
  EXPECT_GE(read, 17);
}

}  // namespace
}  // namespace flotilla::files::sailor_export_test
