#include "app/inspect/inspect.hpp"

#include "app/common/plan_text.hpp"
#include "flotilla/files/fabric_links_file.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/plan_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::app {
namespace {

using tests::error_of;
using tests::TemporaryFolder;

using Words = std::vector<std::string>;

plan::Plan small_plan() { return plan::even_plan(model::built_in("gpt2-mini"), 64, 12, Precision::fp32, 2, 2, 1, 4); }

cluster::Profile small_profile() {
  cluster::Profile p;
  p.model_fingerprint = "hidden 64";
  p.software = "oneDNN 2.6.3";
  p.measured_at = "2026-11-20T09:30:00Z";
  p.device_types = {{"cpu:test:1t", cluster::DeviceKind::cpu, Bytes{1 << 30}, {50e9}, {80e9}, {10e9}, "probe"}};
  p.devices = {{Rank{0}, "cpu:test:1t", "n1", "", 0, 1}, {Rank{1}, "cpu:test:1t", "n1", "", 1, 1}};
  p.links = {{cluster::LinkLevel::node, "n1", "n1", {{Bytes{0}, {2e-6}, {5e9}}, {Bytes{65536}, {9e-6}, {8e9}}}, 0.05}};
  p.operation_times = {{"cpu:test:1t", "attention_forward", 1, 2, 64, Precision::fp32, {0.00125}, 0.031}};
  return p;
}

struct Printed {
  int code = 0;
  std::string out;
};
Printed run(const Words& arguments) {
  testing::internal::CaptureStdout();
  Printed printed;
  printed.code = inspect(arguments);
  printed.out = testing::internal::GetCapturedStdout();
  return printed;
}

/// The cells of a line, for tables whose columns may get wider.
std::string squeezed(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' ' && out.back() != '\n')) out += c;
  return out;
}

TEST(InspectPlan, HasARowForEveryReplica) {
  const auto text = squeezed(plan_text(small_plan()));
  EXPECT_NE(text.find("batch 12 sequences of 64 tokens\n"), std::string::npos) << text;
  const auto plan = small_plan();
  int rows = 0;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) {
      ++rows;
      EXPECT_NE(text.find(" 1 " + std::to_string(replica.devices[0].value) + " "), std::string::npos) << text;
    }
  EXPECT_EQ(rows, 4);
  EXPECT_NE(text.find(" 6 2 x 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("+embedding"), std::string::npos);
  EXPECT_NE(text.find("+head"), std::string::npos);
}

TEST(InspectPlan, FromAFileAsTableAndJson) {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "plan.json").string();
  files::write_plan(file, small_plan());
  EXPECT_EQ(run({file}).out, plan_text(small_plan()));
  EXPECT_EQ(files::plan_from_json(run({file, "--format", "json"}).out, "stdout"), small_plan());
  const auto copy = (folder.path() / "copy.json").string();
  EXPECT_EQ(run({file, "--format=json", "-o", copy}).out, "");
  EXPECT_EQ(files::read_plan(copy), small_plan());
}

TEST(InspectProfile, ShowsDevicesLinksAndTimes) {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "profile.json").string();
  files::write_profile(file, small_profile());
  const auto text = squeezed(run({file}).out);
  for (const char* words : {"measured at 2026-11-20T09:30:00Z\n", "cpu:test:1t 1.00 GiB 50.0 GFLOP/s 80.0 GFLOP/s 10.0 GB/s probe\n",
                            "1 n1 1 1 cpu:test:1t\n", "node n1 n1 0 B 2.00 us 5.00 GB/s 5.0 %\n", "64.0 KiB 9.00 us 8.00 GB/s\n",
                            "operation, fp32 tensor sequences length time variability\n", "attention_forward 1 2 64 1.25 ms 3.1 %\n"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\nin\n" << text;
  EXPECT_EQ(files::profile_from_json(run({file, "--format", "json"}).out, "stdout"), small_profile());
}

TEST(InspectProfile, ShowsTheNetworkBesideWhatMpiMakesOfIt) {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "profile.json").string();
  const std::vector<bench::FabricLink> links{
      {"n1", "n2", {{{8}, {2e-6}, {1.1e-5}, {4e6}, {7e5}}, {{1 << 20}, {9e-5}, {1.2e-4}, {12e9}, {9e9}}}, ""},
      {"n2", "n3", {}, "n3: no transport"}};
  files::write_profile(file, small_profile(), links);
  const auto text = squeezed(run({file}).out);
  for (const char* words : {"n1 - n2 2.00 us 11.0 us 1.00 MiB 12.0 GB/s 9.00 GB/s 75 %\n", "n2 - n3", "n3: no transport\n"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\nin\n" << text;
  EXPECT_EQ(files::fabric_links_of(files::Json::parse(run({file, "--format", "json"}).out, "stdout")), links);
}

checkpoint::Description small_checkpoint() {
  checkpoint::Description d;
  d.manifest.step = 40;
  d.manifest.optimizer_steps = 39;
  d.manifest.sequences = 480;
  d.manifest.seed = 7;
  d.manifest.data_fingerprint = "0123456789abcdef";
  d.manifest.plan = files::plan_to_json(small_plan());
  d.manifest.provenance = {{"host", "n1"}, {"oneDNN", "2.6.3"}};
  d.manifest.files = {{"state.h5", Bytes{1 << 20}, 1}};
  d.tensors = {{checkpoint::StateKind::parameters, "embedding.word", {256, 64}, Bytes{65536}, 4, {1, 3}},
               {checkpoint::StateKind::moment1, "embedding.word", {256, 64}, Bytes{65536}, 4, {}}};
  d.verified = true;
  return d;
}

TEST(InspectCheckpoint, ShowsWhereTheRunStandsAndWhatIsDamaged) {
  const auto text = squeezed(checkpoint_text(small_checkpoint(), "run/step-40"));
  for (const std::string& words :
       {std::string{"step 40 (39 updates applied)\n"}, std::string{"sequences 480 consumed\n"}, std::string{"oneDNN 2.6.3\n"},
        "plan " + plan::summary(small_plan()).substr(0, 60), std::string{"parameters shape size checksums\n"},
        std::string{"embedding.word 256 x 64 64.0 KiB 2 of 4 segments damaged\n"}, std::string{"adamw/moment1 shape size checksums\n"},
        std::string{"embedding.word 256 x 64 64.0 KiB sound\n"}})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\nin\n" << text;
  auto unverified = small_checkpoint();
  unverified.verified = false;
  EXPECT_NE(checkpoint_text(unverified, "x").find("not checked"), std::string::npos);
}

TEST(InspectCheckpoint, EqualBlocksTakeOneLineAndDefaultsNone) {
  auto d = small_checkpoint();
  d.manifest.provenance = {
      {"configuration", "[model]\nname = \"x\"  # command line\nconfig = \"\"  # default\n\n[data]\ntrain = []  # default\n"}};
  d.tensors.clear();
  for (const auto kind : {checkpoint::StateKind::parameters, checkpoint::StateKind::moment1})
    for (int block = 0; block < 12; ++block) {
      d.tensors.push_back({kind, text("block.", block, ".norm1.bias"), {block == 11 ? 8 : 64}, Bytes{256}, 1, {}});
      d.tensors.push_back({kind, text("block.", block, ".norm1.weight"), {64}, Bytes{256}, 1, {}});
    }
  d.tensors[2 * 5].damaged = {0};
  const auto shown = squeezed(checkpoint_text(d, "run/step-40"));
  for (const char* words : {"block.0-4.norm1.bias 64 1.25 KiB sound\n", "block.5.norm1.bias 64 256 B 1 of 1 segments damaged\n",
                            "block.6-10.norm1.bias 64 1.25 KiB sound\n", "block.11.norm1.bias 8 256 B sound\n",
                            "block.0-11.norm1.weight 64 3.00 KiB sound\n", "block.0-10.norm1.bias 64 2.75 KiB sound\n", "name = \"x\""})
    EXPECT_NE(shown.find(words), std::string::npos) << words << "\nin\n" << shown;
  EXPECT_EQ(shown.find("default"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("[data]"), std::string::npos) << shown;
  d.tensors[2 * 5].damaged.clear();
  const auto sound = squeezed(checkpoint_text(d, "run/step-40"));
  EXPECT_NE(sound.find("parameters, adamw/moment1 shape size checksums\n"), std::string::npos) << "kinds alike\n" << sound;
}

TEST(InspectCheckpoint, JsonHasStableKeys) {
  const auto json = files::Json::parse(checkpoint_json(small_checkpoint(), "run/step-40"), "stdout");
  EXPECT_EQ(json.get_string("directory"), "run/step-40");
  EXPECT_EQ(json.at("manifest").get_int("step"), 40);
  EXPECT_EQ(json.get_int("damaged_segments"), 2);
  EXPECT_TRUE(json.get_bool("verified"));
  EXPECT_EQ(json.at("tensors").size(), 2u);
  EXPECT_EQ(json.at("tensors").items()[1].get_string("group"), "adamw/moment1");
  EXPECT_EQ(json.at("tensors").items()[0].get_int64("size_bytes"), 65536);
}

TEST(Inspect, ADamagedStateFileWithoutManifestIsOneLine) {
  const TemporaryFolder folder;
  const auto file = folder.write("weights.h5", "\x89HDF\r\n\x1a\n" + std::string(5000, 'x'));
  const auto error = error_of([&] { inspect(Words{file}); });
  EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
  EXPECT_NE(std::string{error.what()}.find(file), std::string::npos) << error.what();
  EXPECT_EQ(std::string{error.what()}.find('\n'), std::string::npos) << error.what();
}

TEST(Inspect, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  const std::pair<Words, ErrorKind> cases[] = {
      {{}, ErrorKind::usage},
      {{"a", "b"}, ErrorKind::usage},
      {{"--verfy", "a"}, ErrorKind::usage},
      {{(folder.path() / "none").string()}, ErrorKind::no_input},
      {{folder.path().string()}, ErrorKind::bad_input},
      {{folder.write("other.json", "{\"format\": \"x\"}")}, ErrorKind::bad_input},
      {{folder.write("list.json", "[1]")}, ErrorKind::bad_input},
      {{folder.write("text", "not json")}, ErrorKind::bad_input},
      {{folder.write("empty.json", "")}, ErrorKind::bad_input},
  };
  for (const auto& [arguments, kind] : cases) {
    const auto error = error_of([&, words = arguments] { inspect(words); });
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_EQ(std::string{error.what()}.find('\n'), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace flotilla::app
