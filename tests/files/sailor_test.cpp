#include "flotilla/files/sailor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>

#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/published_data.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace flotilla::files::sailor_test {
namespace {

namespace fs = std::filesystem;
using tests::expect_refused;
using tests::replaced;

/// A folder as the artifact lays it out, of our own numbers: one model of two blocks, one of the artifact's that counts its last norm.
class Artifact {
 public:
  Artifact() {
    write(
        "configs/training_config_tiny.json",
        R"({"model": "tiny", "type": "gpt2", "num_layers": 2, "hidden_size": 8, "heads": 2, "vocab_size": 10, "max_position_embeddings": 4})");
    write("configs/basic_cluster_config.json",
          R"({"A100-40": {"gpus_per_node": 4, "mem_per_gpu": 1000}, "X-1": {"gpus_per_node": 2, "mem_per_gpu": 10}, "zone": "z"})");
    write("profiles/all_profiles_combined.json", R"({"tiny": {"A100-40": {"2": {"1": )" + layers(4, "0.5") + "}}}}");
    write("profiles/tiny/A100-40/profile.json", R"({"2": {"1": )" + layers(4, "9") + R"(, "2": )" + layers(4, "7") + "}}");
    write("profiles/LLAMA-3-8/X-1/profile.json", R"({"1": {"1": )" + layers(35, "0") + "}}");
    write("model_info/llm_info.json", R"({"tiny": {"1": )" + sizes(4) + R"(}, "LLAMA-3-8": {"1": )" + sizes(35) + "}}");
    write("network/multizone_bandwidths_het.json", R"({"z": {"A100-40": {"1": {"y": {"X-1": {"2": [[-1, 2, 3], 5e9]}}}}}})");
    write("network/intra_node_bandwidths.json", R"({"A100-40": {"4": [[1, 2, 3], 1e11]}})");
    write("prices/egress_usd_per_gb.json", R"({"z": {"y": 0.01, "z": 0}})");
    write("something/else.json", "not JSON");
  }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((folder_ / path).parent_path());
    write_text(folder_ / path, text);
  }
  void change(const std::string& path, const std::string& from, const std::string& to) {
    write(path, replaced(read_text(folder_ / path), from, to));
  }
  void remove(const std::string& path) { fs::remove_all(folder_ / path); }
  SailorImport read() const { return read_sailor_profiles(folder_); }

  static std::string layers(int count, const std::string& update) {
    return object(count, [&](int i) { return "[" + std::to_string(block(i, count)) + ", 2, " + update + "]"; });
  }
  static std::string sizes(int count) {
    return object(count, [&](int i) {
      const std::string n = std::to_string(100 + block(i, count));
      return R"({"params_floats": )" + n + R"(, "act_output_floats": )" + n + R"(, "act_input_floats": 7, "act_mem_floats": )" + n +
             R"(, "params_bytes": 1})";
    });
  }

 private:
  /// Embedding 1, blocks 3, then 4, 5 ...
  static int block(int i, int count) { return i == 0 ? 1 : i <= (count > 30 ? 32 : count - 2) ? 3 : i - count + 6; }
  static std::string object(int count, const std::function<std::string(int)>& each) {
    std::string out = "{";
    for (int i = 0; i < count; ++i) out += (i == 0 ? "\"" : ", \"") + std::to_string(i) + "\": " + each(i);
    return out + "}";
  }
  tests::TemporaryFolder folder_;
};

TEST(SailorProfiles, AllThatIsThereIsRead) {
  const auto import = Artifact{}.read();
  EXPECT_TRUE(import.notes.empty()) << import.notes.front();
  const auto& p = import.library.profile;
  ASSERT_EQ(import.library.models.size(), 2u);
  const auto& tiny = import.library.models[0].name == "tiny" ? import.library.models[0] : import.library.models[1];
  EXPECT_EQ(tiny.layers(), 4);
  EXPECT_EQ(tiny.family, "gpt2");
  ASSERT_EQ(p.device_types.size(), 2u);
  EXPECT_EQ(p.device_types[0].per_node, 4);
  EXPECT_EQ(p.device_types[0].memory.count, 1000);
  EXPECT_DOUBLE_EQ(p.device_types[0].usd_per_hour, 3.673385);
  EXPECT_EQ(p.device_types[1].usd_per_hour, 0);
  const std::vector<cluster::LinkFit> fits{{"z", "A100-40", 1, "y", "X-1", 2, -1, 2, 3, {5e9}},
                                           {"", "A100-40", 4, "", "A100-40", 4, 1, 2, 3, {1e11}}};
  EXPECT_EQ(p.link_fits, fits);
  const std::vector<cluster::EgressPrice> prices{{"z", "y", 0.01 / 1e9}, {"z", "z", 0}};
  EXPECT_EQ(p.egress_prices, prices);
}

TEST(SailorProfiles, EqualLayersAreOneRowAndTheCombinedFileWins) {
  const auto p = Artifact{}.read().library.profile;
  std::vector<cluster::LayerTime> tiny;
  for (const auto& time : p.layer_times)
    if (time.model == "tiny") tiny.push_back(time);
  const auto row = [](int first, int last, int degree, double forward, double update) {
    return cluster::LayerTime{"tiny", "A100-40", first, last, degree, 2, Precision::fp32, {forward}, {2}, {update}};
  };
  const std::vector<cluster::LayerTime> expected{row(0, 1, 1, 1, 0.5), row(1, 3, 1, 3, 0.5), row(3, 4, 1, 5, 0.5),
                                                 row(0, 1, 2, 1, 7),   row(1, 3, 2, 3, 7),   row(3, 4, 2, 5, 7)};
  EXPECT_EQ(tiny, expected);
}

TEST(SailorProfiles, TheNormBeforeTheHeadGoesWithTheHead) {
  const auto import = Artifact{}.read();
  const auto& p = import.library.profile;
  const auto llama = std::find_if(p.layer_times.rbegin(), p.layer_times.rend(), [](const auto& t) { return t.model == "LLAMA-3-8"; });
  ASSERT_NE(llama, p.layer_times.rend());
  EXPECT_EQ(llama->first_layer, 33);
  EXPECT_EQ(llama->last_layer, 34);
  EXPECT_DOUBLE_EQ(llama->forward.value, 4 + 5);
  EXPECT_DOUBLE_EQ(llama->backward.value, 2 + 2);
  const auto size = std::find_if(p.layer_sizes.rbegin(), p.layer_sizes.rend(), [](const auto& s) { return s.model == "LLAMA-3-8"; });
  EXPECT_EQ(size->parameters, 104 + 105);
  EXPECT_EQ(size->output, 105);
  EXPECT_EQ(size->saved, 104 + 105);
}

TEST(SailorProfiles, SaysWhatIsMissing) {
  const std::pair<const char*, const char*> missing[] = {{"configs/basic_cluster_config.json", "devices per node"},
                                                         {"profiles/all_profiles_combined.json", "layer times but"},
                                                         {"model_info/llm_info.json", "no memory"},
                                                         {"network/multizone_bandwidths_het.json", "between nodes"},
                                                         {"network/intra_node_bandwidths.json", "inside a node"},
                                                         {"prices/egress_usd_per_gb.json", "prices"}};
  for (const auto& [path, lost] : missing) {
    Artifact artifact;
    artifact.remove(path);
    const auto notes = artifact.read().notes;
    ASSERT_FALSE(notes.empty()) << path;
    EXPECT_NE(notes[0].find(std::string{path} + " is missing: no "), std::string::npos) << notes[0];
    EXPECT_NE(notes[0].find(lost), std::string::npos) << notes[0];
  }
  Artifact artifact;
  artifact.remove("profiles");
  expect_refused([&] { artifact.read(); }, "no layer times");
  tests::expect_absent([] { read_sailor_profiles("/nowhere/at-all"); }, "no such file or folder");
}

TEST(SailorProfiles, NotesWhatItLeavesOut) {
  const auto noted = [](const char* path, const char* from, const char* to, const char* part) {
    Artifact artifact;
    artifact.change(path, from, to);
    const auto notes = artifact.read().notes;
    ASSERT_EQ(notes.size(), 1u) << part;
    EXPECT_NE(notes[0].find(part), std::string::npos) << notes[0];
  };
  noted("profiles/all_profiles_combined.json", R"("1": [3)", R"("4": [3)", "/tiny/A100-40/2/1 is left out: it has 4 layers");
  noted("network/intra_node_bandwidths.json", "A100-40", "Z-9", "device type 'Z-9' is left out");
  noted("model_info/llm_info.json", "\"tiny\"", "\"huge\"", "model 'huge' is left out");
}

TEST(SailorProfiles, RefusesNonsenseByPointer) {
  const auto refused = [](const char* path, const char* from, const char* to, const char* part, const char* other) {
    Artifact artifact;
    artifact.change(path, from, to);
    expect_refused([&] { artifact.read(); }, path, part, other);
  };
  const char* const combined = "profiles/all_profiles_combined.json";
  refused(combined, "[1, 2, 0.5]", "[-1, 2, 0.5]", "/tiny/A100-40/2/1/0/0: ", "at least 0");
  refused(combined, "[1, 2, 0.5]", "[1, 2]", "/tiny/A100-40/2/1/0: ", "forward_s");
  refused(combined, "[1, 2, 0.5]", "[1, 2, null]", "/tiny/A100-40/2/1/0/2: ", "a number");
  refused(combined, "[1, 2, 0.5]", "[1e99, 2, 0]", "/tiny/A100-40/2/1/0/0: ", "at most");
  refused(combined, R"({"2":)", R"({"two":)", "/tiny/A100-40/two: ", "whole number");
  refused(combined, R"({"2":)", R"({"0":)", "/tiny/A100-40/0: ", "from 1");
  refused("model_info/llm_info.json", "101", "-101", "/tiny/1/0/params_floats: ", "at least 0");
  refused("network/intra_node_bandwidths.json", "[1, 2, 3]", "[1, 2]", "/A100-40/4: ", "[[a, b, c]");
  refused("network/intra_node_bandwidths.json", "1e11", "0", "/A100-40/4/1: ", "at least");
  refused("prices/egress_usd_per_gb.json", "0.01", "-1", "/z/y: ", "at least 0");
  refused("configs/basic_cluster_config.json", "1000", "0", "/A100-40/mem_per_gpu: ", "at least 1");
}

model::Config tiny() {
  model::Config c = model::built_in("gpt2-tiny");  // four layers
  c.name = "tiny";
  return c;
}

plan::Plan plan_of(const std::string& text, std::optional<int> batch = std::nullopt) {
  return sailor_plan_from_json(Json::parse(text, "p.json"), tiny(), batch);
}

const char* const measured = R"({"pipeline_list": [{"num_stages": 2, "layers_per_stage": [[0, 1], [2, 3]],
  "tmp_per_stage": [[[[["A", 4, "z"]], 2], [[["B", 4, "y"]], 4]], [[[["A", 4, "z"]], 1], [[["A", 4, "z"]], 1]]], "dp": [2, 2]}],
  "mbs": 2, "gbs": 16, "real": 1.5, "max_mem": 5})";

TEST(SailorPlan, AMeasuredRun) {
  const auto plan = plan_of(measured);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].last_layer, 2);
  const plan::Replica& b = plan.stages[0].replicas[1];
  EXPECT_EQ(b.device_type, "B");
  EXPECT_EQ(b.zone, "y");
  EXPECT_EQ(b.tensor_parallel, 4);
  EXPECT_TRUE(b.devices.empty());
  EXPECT_EQ(b.sequences, 8);
  EXPECT_EQ(b.quanta * plan.quantum, 2);
  EXPECT_EQ(plan.global_batch, 16);
  EXPECT_EQ(plan.length, tiny().positions);
  EXPECT_EQ(plan.precision, Precision::fp32);
  EXPECT_EQ(plan_from_json(plan_to_json(plan), "again"), plan);
}

TEST(SailorPlan, EverySpellingIsTheSamePlan) {
  std::string simulated = replaced(measured, "pipeline_list", "pipelines");
  simulated = replaced(replaced(simulated, "tmp_per_stage", "tmp_stages"), "\"dp\"", "\"dp_degrees\"");
  EXPECT_EQ(plan_of(simulated), plan_of(measured));
  EXPECT_EQ(plan_of(R"([{"throughput": 1, "plan": )" + replaced(simulated, R"("gbs": 16, )", "") + "}]", 16), plan_of(measured));
  const char* const counted = R"({"model": "tiny", "global_batch": 16, "plan": {"microbatch_size": 2, "stages": [
    {"first_layer": 0, "last_layer": 1, "replicas": [{"device_type": "A", "zone": "z", "tensor_parallel": 2, "count": 1},
                                                     {"device_type": "B", "zone": "y", "tensor_parallel": 4, "count": 1}]},
    {"first_layer": 2, "last_layer": 3, "replicas": [{"device_type": "A", "zone": "z", "tensor_parallel": 1, "count": 2}]}]}})";
  EXPECT_EQ(plan_of(counted), plan_of(measured));
}

TEST(SailorPlan, AGridIsCutEvenly) {
  const auto plan = plan_of(R"({"P": 3, "D": 2, "T": 4, "mbs": 1, "gpu_type": "A", "num_gpus_per_node": 4, "zone": "z"})", 6);
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_EQ(plan.stages[0].last_layer, 2);
  EXPECT_EQ(plan.stages[1].last_layer, 3);
  EXPECT_EQ(plan.stages[2].replicas.size(), 2u);
  EXPECT_EQ(plan.stages[2].replicas[1].sequences, 3);
}

TEST(SailorPlan, WhatDoesNotDivideIsShared) {
  // Three replicas of microbatches of 4 share 16 sequences as two microbatches, one and one.
  const auto three = [](int batch) { return plan_of(R"({"P": 1, "D": 3, "T": 1, "mbs": 4, "gpu_type": "A", "zone": "z"})", batch); };
  EXPECT_EQ(three(16).quantum, 4);
  EXPECT_EQ(three(16).stages[0].replicas[0].sequences, 8);
  EXPECT_EQ(three(16).stages[0].replicas[2].sequences, 4);
  EXPECT_EQ(three(14).quantum, 1);
  EXPECT_EQ(three(14).stages[0].replicas[0].sequences, 5);
  EXPECT_EQ(three(14).stages[0].replicas[0].quanta, 4);
  EXPECT_EQ(three(8).stages[0].replicas[2].sequences, 2);
}

TEST(SailorPlan, ALastNormOfItsOwnIsPartOfTheHead) {
  const auto llama = *sailor_model("LLAMA-3-8");
  const auto plan_with = [&](const std::string& stages) {
    return sailor_plan_from_json(Json::parse(R"({"plan": {"microbatch_size": 1, "stages": [)" + stages + "]}}", "p.json"), llama, 8);
  };
  const auto stage = [](int first, int last) {
    return R"({"first_layer": )" + std::to_string(first) + R"(, "last_layer": )" + std::to_string(last) +
           R"(, "replicas": [{"device_type": "A", "tensor_parallel": 1, "count": 1}]})";
  };
  EXPECT_EQ(plan_with(stage(0, 34)).stages[0].last_layer, 34);
  EXPECT_EQ(plan_with(stage(0, 33) + "," + stage(34, 34)).stages[0].last_layer, 33);
  EXPECT_EQ(plan_with(stage(0, 20) + "," + stage(21, 34)).stages[1].first_layer, 21);
  expect_refused([&] { plan_with(stage(0, 32) + "," + stage(33, 33) + "," + stage(34, 34)); }, "norm before the head");
}

TEST(SailorPlan, RefusesNonsenseByPointer) {
  const auto refused = [](const char* from, const char* to, const char* part, const char* other) {
    expect_refused([&] { plan_of(replaced(measured, from, to)); }, "p.json", part, other);
  };
  const char* const list = "/pipeline_list/0/";
  refused("[2, 3]", "[2]", list, "expected all 4 of tiny");
  refused("[2, 3]", "[3]", "/pipeline_list/0/layers_per_stage/1: ", "expected 2");
  refused("[2, 3]", "[2, 4]", "/pipeline_list/0/layers_per_stage/1/1: ", "follow one another");
  refused("[2, 3]", "[2, 3, 4]", "/pipeline_list/0/layers_per_stage/1: ", "ends at layer 4");
  refused("[2, 3]", "[]", "/pipeline_list/0/layers_per_stage/1: ", "empty");
  refused(R"("dp": [2, 2])", R"("dp": [2, 1])", "/pipeline_list/0/dp/1: ", "lists 2 replicas");
  refused(R"("dp": [2, 2])", R"("dp": [2])", "/pipeline_list/0/dp: ", "1 stages");
  refused(R"(["B", 4, "y"])", R"(["B", 4])", "/tmp_per_stage/0/1/0/0: ", "[type, devices per node, zone]");
  refused(R"(["B", 4, "y"])", R"(["B", 4, "y"], ["A", 4, "y"])", "/tmp_per_stage/0/1/0/1: ", "one type in one zone");
  refused(R"(]], 4])", R"(]], 99])", "tensor_parallel: is 99", "heads");
  refused(R"("mbs": 2)", R"("mbs": 0)", "/mbs: ", "at least 1");
  refused(R"("mbs": 2)", R"("mbs": 32)", "microbatches of 32 sequences", "16");
  refused(R"("gbs": 16)", R"("gbs": 1)", "replicas of a stage", "global batch of 1");
  refused(R"("gbs": 16, )", "", "global batch", "--training.global-batch");
  refused("pipeline_list", "pipes", "no plan of the Sailor artifact", "pipeline_list");
  expect_refused([] { plan_of(measured, 32); }, "/gbs: is 16", "says 32");
  expect_refused([] { plan_of("[]"); }, "holds 0 plans");
  expect_refused([] { plan_of(R"({"model": "other", "plan": {}})"); }, "/model: ", "tiny");
  const std::string twice = replaced(measured, R"("dp": [2, 2]})", R"("dp": [2, 2]}, {})");
  expect_refused([&] { plan_of(twice); }, "/pipeline_list: has 2 pipelines");
}

TEST(SailorPlan, MutationsAreAnswered) {
  std::mt19937 random{3};
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = measured;
    for (int times = 0; times < 2; ++times) {
      const std::size_t at = random() % text.size();
      if (random() % 2)
        text[at] = "0123456789-[]{},\"ex"[random() % 19];
      else
        text.erase(at, 1 + random() % 4);
    }
    try {
      plan_of(text);
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.kind(), ErrorKind::bad_input) << error.what() << "\n" << text;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(SailorData, TheArtifactsDataIsRead) {
  FLOTILLA_SKIP_WITHOUT_DATA("sailor/profiles");
  const auto import = read_sailor_profiles(tests::published_data("sailor"));
  const auto& p = import.library.profile;
  ASSERT_EQ(import.library.models.size(), 4u);
  EXPECT_EQ(p.device_types.size(), 7u);
  EXPECT_EQ(p.link_fits.size(), 1016u + 17u);
  EXPECT_EQ(p.egress_prices.size(), 25u);
  // The combined file lacks this one, which a file of its own has.
  EXPECT_TRUE(std::ranges::any_of(p.layer_times, [](const auto& t) { return t.model == "OPT-30" && t.device_type == "GH-96"; }));
  const std::string text = library_to_json(import.library);
  EXPECT_LT(text.size(), 1u << 20);
  EXPECT_EQ(library_from_json(text, "library"), import.library);
  for (const auto& note : import.notes) std::printf("%s\n", note.c_str());
}

TEST(SailorData, TheMeasuredRunsArePlans) {
  FLOTILLA_SKIP_WITHOUT_DATA("sailor/validation");
  int read = 0;
  for (const auto& entry : fs::recursive_directory_iterator{tests::published_data("sailor/validation")}) {
    if (entry.path().extension() != ".json") continue;
    const auto document = Json::read(entry.path());
    const auto plan = sailor_plan_from_json(document, *sailor_model("OPT-350"), std::nullopt);
    EXPECT_EQ(plan.global_batch, document.get_int("gbs"));
    ++read;
  }
  EXPECT_GE(read, 17);
}

}  // namespace
}  // namespace flotilla::files::sailor_test
