// Weights of Hugging Face's modules -> any layout -> a checkpoint -> a folder: the same tensors, bit by bit.
#include "flotilla/weights/export.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "checkpoint/session.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "flotilla/weights/carried.hpp"
#include "flotilla/weights/load.hpp"
#include "support/refusal.hpp"
#include "weights/folder.hpp"

namespace flotilla::weights {
namespace {

namespace fs = std::filesystem;
using checkpoint::Holding;
using safetensors::Folder;

std::vector<std::uint32_t> bits_of(const Folder& folder, const std::string& tensor) {
  const auto found = folder.find(tensor);
  if (!found) return {};
  std::vector<float> values(static_cast<std::size_t>(found.entry->elements()));
  found.file->read(*found.entry, 0, 1, values);
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

void expect_same_tensors(const fs::path& expected, const fs::path& found) {
  const auto a = Folder::open(expected), b = Folder::open(found);
  std::size_t tensors = 0;
  for (const auto& file : b.files()) tensors += file.entries().size();
  EXPECT_EQ(tensors, a.files().front().entries().size());
  for (const auto& entry : a.files().front().entries()) {
    ASSERT_TRUE(b.find(entry.name)) << entry.name;
    EXPECT_EQ(b.find(entry.name).entry->shape, entry.shape) << entry.name;
    EXPECT_EQ(bits_of(a, entry.name), bits_of(b, entry.name)) << entry.name;
  }
}

class ExportedModel : public checkpoint::Together, public ::testing::WithParamInterface<const char*> {
 protected:
  const model::Config config_ = tests::reference_numbers(GetParam()).model;
  const tests::ModelFolder theirs_{GetParam()};

  /// A checkpoint of their weights, saved under a random layout of the ranks.
  fs::path saved(std::mt19937& random, std::int64_t step) const {
    const Holding holding{checkpoint::random_plan(random, config_, size()), world_.rank()};
    weights::load(world_, theirs_, config_, holding.state(), checkpoint::test_deadline);
    checkpoint::Manifest manifest;
    manifest.step = step;
    manifest.plan = files::plan_to_json(checkpoint::one_rank_plan(config_));
    return checkpoint::save(world_, run_, holding.state(), manifest, {.deadline = checkpoint::test_deadline}).directory;
  }
};

TEST_P(ExportedModel, HasTheTensorsThatWereImported) {
  std::mt19937 random{11};
  for (int trial = 0; trial < 3; ++trial) {
    const auto step = saved(random, trial + 1);
    if (!root()) continue;
    const auto whole = run_ / ("whole-" + std::to_string(trial)), parts = run_ / ("parts-" + std::to_string(trial));
    EXPECT_EQ(export_hugging_face(step, whole).files, 1);
    expect_same_tensors(theirs_, whole);
    EXPECT_GT(export_hugging_face(step, parts, {.shard_size = Bytes{20000}}).files, 1);
    expect_same_tensors(theirs_, parts);
  }
}

TEST_P(ExportedModel, HasAConfigurationThatIsReadAsTheModel) {
  std::mt19937 random{3};
  const auto step = saved(random, 1);
  if (!root()) return;
  const auto read = [&](const fs::path& folder) {
    auto config = files::read_hugging_face_config(folder / "config.json");
    config.name = config_.name;
    return config;
  };
  export_hugging_face(step, run_ / "written");
  EXPECT_EQ(read(run_ / "written"), config_);
  carry(theirs_, carried_folder(run_));
  export_hugging_face(step, run_ / "carried", {.precision = Precision::bf16});
  EXPECT_EQ(read(run_ / "carried"), config_);
  EXPECT_EQ(files::Json::read(run_ / "carried/config.json").get_string("dtype"), "bfloat16");
  EXPECT_EQ(Folder::open(run_ / "carried").files().front().entries().front().type, "BF16");
}

TEST_P(ExportedModel, OverwritesNothing) {
  std::mt19937 random{5};
  const auto step = saved(random, 1);
  if (!root()) return;
  fs::create_directory(run_ / "there");
  tests::expect_refused([&] { export_hugging_face(step, run_ / "there"); }, (run_ / "there").string(), "exists");
  EXPECT_TRUE(fs::is_empty(run_ / "there"));
}

INSTANTIATE_TEST_SUITE_P(Models, ExportedModel, ::testing::ValuesIn(tests::reference_models));

/// Built like Llama, with what each adds: nobody has written these weights, so any bits will do.
class ModelLikeLlama : public checkpoint::Together, public ::testing::WithParamInterface<const char*> {
 protected:
  static model::Config config() {
    auto config = checkpoint::grouped_model();
    config.name = "m";
    config.family = GetParam();
    config.norm_epsilon = 1e-6;
    config.position_offset = 0;
    if (config.family != "llama") config.windows = {5};
    config.qkv_bias = config.family == "qwen2";
    config.query_key_norms = config.family == "qwen3";
    if (config.query_key_norms) config.head_width = 6;
    return config;
  }
};

TEST_P(ModelLikeLlama, ComesBackAsItWent) {
  std::mt19937 random{13};
  Holding holding{checkpoint::random_plan(random, config(), size()), world_.rank()};
  holding.fill(5);
  checkpoint::Manifest manifest;
  manifest.step = 1;
  manifest.plan = files::plan_to_json(checkpoint::one_rank_plan(config()));
  const auto step = checkpoint::save(world_, run_, holding.state(), manifest, {.deadline = checkpoint::test_deadline}).directory;
  const auto folder = run_ / "exported";
  if (root()) {
    export_hugging_face(step, folder);
    auto read = files::read_hugging_face_config(folder / "config.json");
    read.name = config().name;
    EXPECT_EQ(read, config());
  }
  barrier();
  const auto plan = checkpoint::random_plan(random, config(), size());
  Holding expected{plan, world_.rank()};
  const Holding found{plan, world_.rank()};
  expected.fill(5);
  weights::load(world_, folder, config(), found.state(), checkpoint::test_deadline);
  for (std::size_t i = 0; i < found.state().parts.size(); ++i) {
    const auto a = expected.state().parts[i].parameters, b = found.state().parts[i].parameters;
    const auto tensor = static_cast<std::size_t>(expected.state().parts[i].tensor);
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(a), std::as_bytes(b))) << (*found.state().tensors)[tensor].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ModelLikeLlama, ::testing::Values("llama", "mistral", "qwen2", "qwen3"));

}  // namespace
}  // namespace flotilla::weights
