#include "app/export/export.hpp"

#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::app {
namespace {

using tests::error_of;
using tests::TemporaryFolder;

using Words = std::vector<std::string>;

class ExportCommand : public testing::Test {
 protected:
  ExportCommand() {
    auto plan = plan::even_plan(model::built_in("gpt2-tiny"), model::built_in("gpt2-tiny").positions, 16, Precision::fp32, 2, 2, 1, 2);
    for (auto& stage : plan.stages)
      for (auto& replica : stage.replicas) replica.device_type = "A";
    files::write_plan(folder_ / "plan.json", plan);
    plan.stages[1].recompute = plan::Recompute::full;
    files::write_plan(folder_ / "recomputes.json", plan);
    cluster::Profile library;
    auto& type = library.device_types.emplace_back();
    type.name = "A";
    type.kind = cluster::DeviceKind::gpu;
    type.memory = {1 << 30};
    type.per_node = 3;
    files::write_profile(folder_ / "library.json", library);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  files::Json written(Words more) {
    Words words{"sailor-plan", path("plan.json"), "-o", path("out.json"), "--log-level", "error"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(export_for_others(words), 0);
    return files::Json::read(path("out.json"));
  }
  TemporaryFolder folder_;
};

TEST_F(ExportCommand, SaysWhatItNeedsToWriteAModel) {
  const auto refused = [](ErrorKind kind, const Words& words) { return tests::refusal(kind, [&] { export_for_others(words); }); };
  tests::expect_contains(refused(ErrorKind::usage, {"hf", path("run")}), "-o DIRECTORY");
  tests::expect_contains(refused(ErrorKind::no_input, {"hf", path("run"), "-o", path("model")}),
                         "no such file or folder; expected a checkpoint");
  std::filesystem::create_directory(path("run"));
  tests::expect_contains(refused(ErrorKind::bad_input, {"hf", path("run"), "-o", path("model")}), "neither a committed checkpoint");
  tests::expect_contains(refused(ErrorKind::usage, {"fh", path("run")}), "hf");
  EXPECT_FALSE(std::filesystem::exists(path("model")));
}

TEST_F(ExportCommand, WritesWhatTheSimulatorTakes) {
  const auto document = written({});
  EXPECT_EQ(document.at("pipeline_list").items()[0].at("dp").one_line(), "[2, 2]");
  EXPECT_EQ(document.get_string("zone"), "us-central1-a");
  EXPECT_EQ(document.get_int("N"), 4);
}

TEST_F(ExportCommand, TakesNodesZoneAndSpelling) {
  const auto document = written({"--profiles", path("library.json"), "--zone", "here"});
  EXPECT_EQ(document.get_string("zone"), "here");
  EXPECT_EQ(document.get_int("N"), 2);  // four devices, three in a node
  EXPECT_EQ(written({"--spelling", "counted"}).at("plan").get_int("microbatch_size"), 2);
}

TEST_F(ExportCommand, RefusesInOneLine) {
  const auto expect = [](const Words& arguments, ErrorKind kind, const std::string& part) {
    const Error error = error_of([&] { export_for_others(arguments); });
    const std::string what = error.what();
    EXPECT_EQ(error.kind(), kind) << what;
    EXPECT_NE(what.find(part), std::string::npos) << what << "\nlacks " << part;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  };
  expect({}, ErrorKind::usage, "sailor-plan PLAN");
  expect({"sailor-plans", "x"}, ErrorKind::usage, "did you mean 'sailor-plan'");
  expect({"sailor-plan"}, ErrorKind::usage, "sailor-plan PLAN");
  expect({"sailor-plan", "a", "b"}, ErrorKind::usage, "sailor-plan PLAN");
  expect({"sailor-plan", path("absent.json")}, ErrorKind::no_input, "absent.json");
  expect({"sailor-plan", path("recomputes.json"), "-o", path("out.json")}, ErrorKind::unavailable, "stages[1].recompute");
  EXPECT_FALSE(std::filesystem::exists(path("out.json")));
}

}  // namespace
}  // namespace flotilla::app
