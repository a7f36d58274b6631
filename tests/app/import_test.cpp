#include "app/import/import.hpp"

#include "app/bench/bench_text.hpp"
#include "app/common/library_model.hpp"
#include "app/common/plan_text.hpp"
#include "app/inspect/inspect.hpp"
#include "flotilla/files/bench_file.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/sailor.hpp"
#include "flotilla/files/text_file.hpp"
#include "support/published_data.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "weights/folder.hpp"
#include "weights/llmc_file.hpp"

namespace flotilla::app {
namespace {

using tests::error_of;
using tests::TemporaryFolder;

using Words = std::vector<std::string>;

const char* const grid = R"({"P": 2, "D": 2, "T": 1, "mbs": 1, "gpu_type": "A100-40", "zone": "z"})";

/// A library of one type and one model under another name.
files::Library small_library() {
  files::Library library;
  library.models = {model::built_in("gpt2-tiny")};
  library.models[0].name = "Two-Blocks";
  cluster::DeviceType type;
  type.name = "A100-40";
  type.kind = cluster::DeviceKind::gpu;
  type.memory = {std::int64_t{40} << 30};
  type.per_node = 4;
  type.usd_per_hour = 3.5;
  library.profile.device_types = {type};
  library.profile.layer_times = {{"Two-Blocks", "A100-40", 0, 4, 1, 1, Precision::fp32, {0.1}, {0.2}, {0}},
                                 {"Two-Blocks", "A100-40", 0, 4, 2, 8, Precision::fp32, {0.1}, {0.2}, {0}}};
  library.profile.link_fits = {{"z", "A100-40", 1, "y", "A100-40", 1, 0, 0, 2, {2e9}},
                               {"", "A100-40", 4, "", "A100-40", 4, 0, 0, 2, {9e10}}};
  library.profile.egress_prices = {{"z", "y", 1e-11}};
  return library;
}

class ImportCommand : public testing::Test {
 protected:
  ImportCommand() {
    files::write_library(folder_ / "library.json", small_library());
    files::write_text(folder_ / "grid.json", grid);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string refusal_of(const Words& arguments, ErrorKind kind) {
    return tests::refusal(kind, [&] { import_published(arguments); });
  }
  TemporaryFolder folder_;
};

TEST_F(ImportCommand, MakesAHuggingFaceModelOfAFileOfLlmc) {
  const auto file = tests::write_llmc(path("tiny.bin"), tests::llmc_bytes({}, 5)).string();
  EXPECT_NE(refusal_of({"llmc", file}, ErrorKind::usage).find("name it: -o DIRECTORY"), std::string::npos);
  testing::internal::CaptureStdout();
  EXPECT_EQ(import_published(Words{"llmc", file, "-o", path("model"), "--log-level", "error"}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[model]\nweights = \"" + path("model") + "\"\n");
  EXPECT_EQ(import_published(Words{"hf", path("model"), "-o", path("job.toml"), "--log-level", "error"}), 0);
  const auto as_model = refusal_of({"hf", file}, ErrorKind::bad_input);
  EXPECT_NE(as_model.find("is a file; expected the directory of a Hugging Face model: flotilla import llmc"), std::string::npos)
      << as_model;
}

/// A run becomes a plan and a profile library that it can be forecast with, and is forecast beside what was measured.
TEST_F(ImportCommand, MakesAPlanAndAClusterOfAPublishedRun) {
  const auto run = [](const std::string& id, const std::string& runtime) {
    return R"({"id": ")" + id + R"(", "hardware": {"device_type": "H100-SXM5-80", "devices": 8, "devices_per_node": 8}, "runtime": ")" +
           runtime +
           R"(", "model": {"family": "gpt3", "layers": 24, "hidden": 4096, "heads": 32, "vocabulary": 50304},
  "parallel": {"tensor": 1, "data": 8, "zero": 3}, "batch": {"global_sequences": 16, "microbatch": 2},
  "sequence_length": 2048, "precision": "bf16", "measured": {"iteration_seconds": 1}, "complete": true})";
  };
  files::write_text(folder_ / "runs.json", R"({"format": "published-runs", "version": 1, "source": {}, "runs": [)" +
                                               run("one", "torchtitan") + ", " + run("two", "nobody's") + "]}");
  const auto file = path("runs.json");
  EXPECT_NE(refusal_of({"published", file}, ErrorKind::usage).find("name it: -o DIRECTORY"), std::string::npos);
  EXPECT_NE(refusal_of({"published", file, "-o", path("out")}, ErrorKind::usage).find("has 2 runs; name one: --run one"),
            std::string::npos);
  EXPECT_NE(refusal_of({"published", file, "-o", path("out"), "--run", "tow"}, ErrorKind::bad_input).find("did you mean 'two'?"),
            std::string::npos);
  EXPECT_NE(refusal_of({"published", file, "-o", path("out"), "--run", "two"}, ErrorKind::unavailable).find("runtime nobody's"),
            std::string::npos);
  EXPECT_NE(refusal_of({"osu", file, "--run", "one"}, ErrorKind::usage).find("leave out --run"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("out")));

  testing::internal::CaptureStdout();
  EXPECT_EQ(import_published(Words{"published", file, "-o", path("out"), "--run", "one", "--log-level", "error"}), 0);
  const auto told = testing::internal::GetCapturedStdout();
  for (const char* line : {"runtime   pytorch-fsdp\n", "\nforecast  ", "\nmeasured  1.00 s; the forecast is off by "})
    EXPECT_NE(told.find(line), std::string::npos) << told;
  const auto plan = files::read_plan(path("out/plan.json"));
  EXPECT_EQ(plan.stages.front().replicas.size(), 8u);
  EXPECT_TRUE(plan.shard_optimizer);
  const auto library = files::read_library(path("out/cluster.json"));
  EXPECT_EQ(library.models.front(), plan.model);
  EXPECT_EQ(library.profile.devices.size(), 8u);
}

/// Pickles are programs: what Megatron-LM writes is named, and what turns it into a model that can be read.
TEST_F(ImportCommand, NamesACheckpointOfMegatron) {
  for (const char* mark : {"latest_checkpointed_iteration.txt", "common.pt", ".metadata", "iter_0000100", "mp_rank_00", "mp_rank_00_000",
                           "model_optim_rng.pt"}) {
    const auto folder = folder_ / (std::string{"megatron-"} + mark);
    std::filesystem::create_directory(folder);
    files::write_text(folder / mark, "100");
    const auto message = refusal_of({"hf", folder.string()}, ErrorKind::bad_input);
    EXPECT_NE(message.find("is a checkpoint of Megatron-LM or PyTorch (it holds " + std::string{mark} + ")"), std::string::npos) << message;
    EXPECT_NE(message.find("export_ckpt of Megatron Bridge"), std::string::npos) << message;
  }
}

TEST_F(ImportCommand, WritesTheJobSectionOfAHuggingFaceModel) {
  const tests::ModelFolder model{"llama"};
  EXPECT_EQ(import_published(Words{"hf", model.path().string(), "-o", path("job.toml"), "--log-level", "error"}), 0);
  EXPECT_EQ(files::read_text(path("job.toml")), "[model]\nweights = \"" + model.path().string() + "\"\n");
  const auto message = refusal_of(Words{"hf", model.path().string(), "--model.name", "gpt2"}, ErrorKind::usage);
  EXPECT_NE(message.find("leave out"), std::string::npos) << message;
  std::filesystem::remove(model / "model.safetensors");
  EXPECT_NE(refusal_of(Words{"hf", model.path().string()}, ErrorKind::bad_input).find("neither model.safetensors"), std::string::npos);
}

TEST_F(ImportCommand, WritesAPlan) {
  EXPECT_EQ(import_published(Words{"sailor-plan", path("grid.json"), "--profiles", path("library.json"), "--model.name", "two-blocks",
                                   "--training.global-batch", "8", "-o", path("plan.json"), "--log-level", "error"}),
            0);
  const auto plan = files::read_plan(path("plan.json"));
  EXPECT_EQ(plan.model.name, "Two-Blocks");
  EXPECT_EQ(plan.global_batch, 8);
  EXPECT_EQ(plan.stages.size(), 2u);
}

TEST_F(ImportCommand, ALibrarysOnlyModelIsThePlans) {
  EXPECT_EQ(import_published(Words{"sailor-plan", path("grid.json"), "--profiles", path("library.json"), "--training.global-batch", "8",
                                   "-o", path("plan.json"), "--log-level", "error"}),
            0);
  EXPECT_EQ(files::read_plan(path("plan.json")).model.name, "Two-Blocks");
  EXPECT_NE(refusal_of({"sailor-plan", path("grid.json"), "--training.global-batch", "8"}, ErrorKind::bad_input).find("--model.name NAME"),
            std::string::npos);
}

TEST_F(ImportCommand, ModelsAreTheLibrarysThenBuiltIn) {
  const auto library = small_library();
  EXPECT_EQ(model_in(library, "TWO-blocks").name, "Two-Blocks");
  EXPECT_EQ(model_in(library, "opt-350m"), model::built_in("opt-350m"));
  EXPECT_EQ(model_in({}, "GPT2").name, "gpt2");
  const std::string what = error_of([&] { model_in(library, "two-block"); }).what();
  EXPECT_NE(what.find("did you mean 'Two-Blocks'"), std::string::npos) << what;
}

TEST_F(ImportCommand, MeasurementsOfOthersBecomePartOfABenchReport) {
  files::write_text(folder_ / "osu.txt", "# OSU MPI Latency Test v7.5\n8 1.25\n2097152 187\n");
  files::write_text(folder_ / "nv.json", R"({"nvbandwidth": {"testcases": [{"name": "host_to_device_memcpy_ce", "status": "Passed",
    "bandwidth_description": "", "bandwidth_matrix": [["55.6", "54.9"]]}]}})");
  EXPECT_EQ(import_published(Words{"osu", path("osu.txt"), "--hosts", "n[1-2]", "-o", path("report.json"), "--log-level", "error"}), 0);
  for (int twice = 0; twice < 2; ++twice)
    EXPECT_EQ(import_published(Words{"nvbandwidth", path("nv.json"), "--report", path("report.json"), "-o", path("report.json"),
                                     "--log-level", "error"}),
              0);
  const auto report = files::read_bench(path("report.json"));
  ASSERT_EQ(report.imported.size(), 2u) << "the same again takes the place of the first";
  EXPECT_EQ(report.imported[0].hosts, (std::vector<std::string>{"n1", "n2"}));
  const auto words = bench_text({report, {}, "nothing"}, 80);
  for (const char* part : {"osu.txt, on n1, n2\n", "osu_latency", "8 B: 1.25 us", "2.00 MiB: 187 us", "nvbandwidth", "54.9 GB/s"})
    EXPECT_NE(words.find(part), std::string::npos) << words << "\nlacks " << part;
}

TEST_F(ImportCommand, RefusesInOneLine) {
  const auto expect = [&](const Words& arguments, ErrorKind kind, const std::string& part) {
    const auto what = refusal_of(arguments, kind);
    EXPECT_NE(what.find(part), std::string::npos) << what << "\nlacks " << part;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  };
  expect({}, ErrorKind::usage, "sailor-profiles DIRECTORY");
  expect({"sailor-plans", "x"}, ErrorKind::usage, "did you mean 'sailor-plan'");
  expect({"sailor-plan"}, ErrorKind::usage, "sailor-plan FILE");
  expect({"sailor-plan", "a", "b"}, ErrorKind::usage, "sailor-plan FILE");
  expect({"sailor-profiles", path("."), "--model.name", "x"}, ErrorKind::usage, "leave out");
  expect({"sailor-plan", path("grid.json"), "--hosts", "n1"}, ErrorKind::usage, "leave out");
  expect({"osu", path("osu.txt"), "--profiles", "x"}, ErrorKind::usage, "leave out");
  expect({"sailor-profiles", path(".")}, ErrorKind::bad_input, "no layer times");
  expect({"sailor-plan", path("absent.json"), "--model.name", "gpt2-tiny"}, ErrorKind::no_input, "absent.json");
  files::write_text(folder_ / "other.json", R"({"P": 1, "D": 1, "T": 1, "mbs": 1, "gpu_type": "A100-41", "gbs": 4})");
  expect({"sailor-plan", path("other.json"), "--profiles", path("library.json")}, ErrorKind::bad_input, "did you mean 'A100-40'");
}

TEST_F(ImportCommand, InspectShowsALibrary) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(inspect(Words{path("library.json")}), 0);
  const auto out = testing::internal::GetCapturedStdout();
  for (const char* part :
       {"A100-40", "40.0 GiB", "4 a node, 3.5 USD/h", "Two-Blocks", "1,2", "1,8", "(inside a node)", "2.00 GB/s", "1 price"})
    EXPECT_NE(out.find(part), std::string::npos) << out << "\nlacks " << part;
  for (const char* part : {"rank", "operation"}) EXPECT_EQ(out.find(part), std::string::npos) << out;
  testing::internal::CaptureStdout();
  EXPECT_EQ(inspect(Words{path("library.json"), "--format", "json"}), 0);
  EXPECT_EQ(files::library_from_json(testing::internal::GetCapturedStdout(), "out"), small_library());
}

TEST_F(ImportCommand, TheSailorArtifact) {
  FLOTILLA_SKIP_WITHOUT_DATA("sailor/profiles");
  const auto artifact = tests::published_data("sailor");
  EXPECT_EQ(import_published(Words{"sailor-profiles", artifact.string(), "-o", path("sailor.json"), "--log-level", "error"}), 0);
  EXPECT_EQ(files::read_library(path("sailor.json")).models.size(), 4u);
  const auto run = artifact / "validation/clariden/OPT-350/N2/plan_config_N2_D1.json";
  EXPECT_EQ(import_published(Words{"sailor-plan", run.string(), "--profiles", path("sailor.json"), "--model.name", "opt-350", "-o",
                                   path("plan.json"), "--log-level", "error"}),
            0);
  const auto plan = files::read_plan(path("plan.json"));
  EXPECT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[1].replicas[0].device_type, "GH-96");
  EXPECT_EQ(plan.stages[1].replicas[0].tensor_parallel, 4);
}

}  // namespace
}  // namespace flotilla::app
