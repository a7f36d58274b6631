// Weights of Hugging Face's modules -> any layout -> a checkpoint -> a folder: the same tensors, bit by bit.
#include "flotilla/weights/export.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "checkpoint/session.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "flotilla/weights/carried.hpp"
#include "flotilla/weights/llmc.hpp"
#include "flotilla/weights/load.hpp"
#include "flotilla/weights/pretrained.hpp"
#include "support/refusal.hpp"
#include "weights/folder.hpp"
#include "weights/llmc_file.hpp"

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

/// Elements of one of theirs.
std::vector<float> values_of(const Folder& folder, const std::string& tensor) {
  const auto found = folder.find(tensor);
  EXPECT_TRUE(found) << tensor;
  std::vector<float> values(found ? static_cast<std::size_t>(found.entry->elements()) : 0);
  if (found) found.file->read(*found.entry, 0, 1, values);
  return values;
}

/// Legal, and named; not where a single element has a value, whichever rank reads it.
TEST_P(ExportedModel, IsLoadedWithALineForAMatrixOfZeros) {
  const auto file = theirs_ / "model.safetensors";
  const auto entries = safetensors::SafetensorsFile::open(file).entries();
  const auto matrix = std::ranges::find_if(entries, [](const auto& entry) { return entry.shape.size() == 2; });
  ASSERT_NE(matrix, entries.end());
  std::mt19937 random{29};
  for (const std::int64_t kept : {1, 0}) {
    const std::string zeros(static_cast<std::size_t>(matrix->bytes - kept * std::int64_t{sizeof(float)}), '\0');
    std::fstream{file, std::ios::in | std::ios::out | std::ios::binary}.seekp(matrix->first).write(zeros.data(), std::ssize(zeros));
    ::testing::internal::CaptureStderr();
    saved(random, 2 - kept);
    const auto said = ::testing::internal::GetCapturedStderr();
    const auto line = "1 matrix is all zero, as new blocks and adapters begin, '" + matrix->name + "'";
    EXPECT_EQ(said.find(line) != std::string::npos, root() && kept == 0) << said;
  }
}

/// What training moved norms by may be less than half a step of the precision there: counted, as the files themselves say.
TEST_P(ExportedModel, SaysWhichNormsAPrecisionRoundsBack) {
  const auto file = theirs_ / "model.safetensors";
  std::string norm;
  {
    const auto opened = safetensors::SafetensorsFile::open(file);
    for (const auto& entry : opened.entries())
      if (entry.shape.size() == 1) norm = entry.name;
  }
  tests::put(file, norm, 0, 1.0002f);
  tests::put(file, norm, 1, 0.9985f);
  tests::put(file, norm, 2, 0.9975f);
  std::mt19937 random{23};
  const auto step = saved(random, 1);
  if (!root()) return;
  EXPECT_EQ(export_hugging_face(step, run_ / "exact").norms_rounded_back, 0);
  const auto exact = Folder::open(run_ / "exact");
  for (const auto precision : {Precision::bf16, Precision::fp16}) {
    const auto folder = run_ / to_string(precision);
    const auto report = export_hugging_face(step, folder, {.precision = precision});
    const auto rounded = Folder::open(folder);
    std::int64_t expected = 0;
    for (const auto& entry : exact.files().front().entries()) {
      if (entry.shape.size() != 1) continue;
      const auto before = values_of(exact, entry.name), after = values_of(rounded, entry.name);
      for (std::size_t i = 0; i < before.size(); ++i) expected += before[i] != 1 && after[i] == 1;
    }
    EXPECT_EQ(report.norms_rounded_back, expected) << to_string(precision);
    EXPECT_GE(expected, precision == Precision::bf16 ? 2 : 1);
    EXPECT_GE(report.moved_most, precision == Precision::bf16 ? 0.0014 : 0.0001);
  }
}

double relative_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double apart = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(apart / norm);
}

class ExportedAdapter : public checkpoint::Together, public ::testing::WithParamInterface<const char*> {
 protected:
  const tests::AdapterNumbers want_ = tests::adapter_numbers(GetParam());
  const tests::ModelFolder theirs_{GetParam()};

  /// A checkpoint of the numbers' weights and adapters, saved under a random layout.
  fs::path saved() const {
    std::mt19937 random{17};
    const Holding holding{checkpoint::random_plan(random, want_.model, size()), world_.rank()};
    const auto state = holding.state();
    for (const auto& part : state.parts) {
      const auto& tensor = (*state.tensors)[static_cast<std::size_t>(part.tensor)];
      const auto whole = tests::reference_weights(tensor);
      for (const auto& box : part.boxes_in(tensor))
        for (std::int64_t o = 0; o < box.outer; ++o)
          for (std::int64_t i = 0; i < box.inner; ++i)
            part.parameters[static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)] =
                static_cast<float>(whole[static_cast<std::size_t>(box.global_offset + o * box.global_stride + i)]);
    }
    weights::load(world_, theirs_, want_.model, state, checkpoint::test_deadline);  // leaves the adapters as they are
    checkpoint::Manifest manifest;
    manifest.step = 1;
    manifest.plan = files::plan_to_json(checkpoint::one_rank_plan(want_.model));
    return checkpoint::save(world_, run_, state, manifest, {.deadline = checkpoint::test_deadline}).directory;
  }
};

/// What is exported, read as weights of a model without adapters, is what PEFT merged.
TEST_P(ExportedAdapter, IsMergedAsPeftMerges) {
  const auto step = saved();
  if (!root()) return;
  const auto folder = run_ / "merged";
  EXPECT_EQ(export_hugging_face(step, folder).files, 1);
  const auto config = want_.model.fully_trained();
  Pretrained merged{folder, config};
  const auto tensors = model::tensors(config);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::vector<float> values(static_cast<std::size_t>(tensors[t].elements()));
    merged.read(static_cast<int>(t), {{.inner = tensors[t].elements()}}, values);
    const auto found = want_.merged.find(tensors[t].name);
    EXPECT_LE(relative_difference(values, found == want_.merged.end() ? tests::reference_weights(tensors[t]) : found->second), 1e-7)
        << tensors[t].name;
  }
}

/// PEFT's names and extents; B A of every matrix is what the merged one has more.
TEST_P(ExportedAdapter, AloneHasPeftsNames) {
  const auto step = saved();
  if (!root()) return;
  const auto folder = run_ / "adapter", merged = run_ / "merged";
  export_hugging_face(step, merged);
  const auto report = export_hugging_face(step, folder, {.adapter = true});
  EXPECT_EQ(report.files, 1);
  const auto config = files::Json::read(folder / "adapter_config.json");
  EXPECT_EQ(config.get_string("peft_type"), "LORA");
  EXPECT_EQ(config.get_int("r"), 3);
  EXPECT_EQ(config.get_double("lora_alpha"), 4.5);
  EXPECT_EQ(config.get_bool("fan_in_fan_out"), want_.model.family == "gpt2");
  fs::rename(folder / "adapter_model.safetensors", folder / "model.safetensors");  // the name that a folder of a model has
  const Folder adapter = Folder::open(folder), before = Folder::open(theirs_), after = Folder::open(merged);
  int matrices = 0;
  for (const auto& entry : before.files().front().entries()) {
    const std::string module = "base_model.model." + entry.name.substr(0, entry.name.rfind('.'));
    if (!entry.name.ends_with(".weight") || !adapter.find(module + ".lora_A.weight")) continue;
    ++matrices;
    const auto a = values_of(adapter, module + ".lora_A.weight"), b = values_of(adapter, module + ".lora_B.weight");
    const auto was = values_of(before, entry.name), is = values_of(after, entry.name);
    const bool transposed = want_.model.family == "gpt2";
    const std::size_t inputs = a.size() / 3, outputs = b.size() / 3;
    EXPECT_EQ(entry.shape, (std::vector<std::int64_t>{static_cast<std::int64_t>(transposed ? inputs : outputs),
                                                      static_cast<std::int64_t>(transposed ? outputs : inputs)}));
    std::vector<double> sum(was.begin(), was.end());
    for (std::size_t o = 0; o < outputs; ++o)
      for (std::size_t i = 0; i < inputs; ++i)
        for (std::size_t r = 0; r < 3; ++r)
          sum[transposed ? i * outputs + o : o * inputs + i] += 1.5 * double{b[o * 3 + r]} * double{a[r * inputs + i]};
    EXPECT_LE(relative_difference(is, sum), 1e-7) << entry.name;
  }
  EXPECT_EQ(report.tensors, 2 * matrices);
  EXPECT_EQ(config.at("target_modules").items().size() * static_cast<std::size_t>(want_.model.blocks), static_cast<std::size_t>(matrices));
}

INSTANTIATE_TEST_SUITE_P(Models, ExportedAdapter, ::testing::ValuesIn(tests::adapted_models));

TEST_P(ExportedModel, HasNoAdapterToExport) {
  std::mt19937 random{5};
  const auto step = saved(random, 1);
  if (root())
    tests::expect_contains(tests::refusal([&] { export_hugging_face(step, run_ / "adapter", {.adapter = true}); }),
                           "was trained without LoRA");
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

/// llm.c's file -> a folder -> any layout -> a checkpoint -> a file: the same bytes.
class LlmcModelFile : public checkpoint::Together {
 protected:
  fs::path saved(const fs::path& folder) {
    const auto config = files::read_hugging_face_config(folder / "config.json");
    std::mt19937 random{21};
    const Holding holding{checkpoint::random_plan(random, config, size()), world_.rank()};
    weights::load(world_, folder, config, holding.state(), checkpoint::test_deadline);
    checkpoint::Manifest manifest;
    manifest.step = ++steps_;
    manifest.plan = files::plan_to_json(checkpoint::one_rank_plan(config));
    return checkpoint::save(world_, run_, holding.state(), manifest, {.deadline = checkpoint::test_deadline}).directory;
  }
  std::int64_t steps_ = 0;
};

TEST_F(LlmcModelFile, ComesBackAsItWent) {
  for (const int version : {3, 5}) {
    const auto file = run_ / ("given-" + std::to_string(version)), folder = run_ / ("model-" + std::to_string(version)),
               back = run_ / ("back-" + std::to_string(version));
    if (root()) import_llmc(tests::write_llmc(file, tests::llmc_bytes({.vocabulary = 120, .heads = 4}, version)), folder);
    barrier();
    const auto step = saved(folder);
    if (!root()) continue;
    export_llmc(step, back, version == 3 ? Precision::fp32 : Precision::bf16);
    EXPECT_TRUE(files::read_text(back) == files::read_text(file)) << "version " << version;
    tests::expect_refused([&] { export_llmc(step, back, Precision::fp32); }, back.string(), "exists");
    tests::expect_refused([&] { export_llmc(step, run_ / "half", Precision::fp16); }, (run_ / "half").string(), "no model files in fp16");
  }
}

TEST_P(ExportedModel, IsAFileOfLlmcWhereItIsItsGpt2) {
  std::mt19937 random{5};
  const auto step = saved(random, 1);
  if (!root()) return;
  const bool llmc_has = config_.family == "gpt2" && config_.feed_forward == 4 * config_.hidden && config_.norm_epsilon == 1e-5;
  const auto file = run_ / "model.bin", folder = run_ / "again";
  if (!llmc_has) return tests::expect_refused([&] { export_llmc(step, file, Precision::fp32); }, step.string(), "llm.c has no such model");
  export_llmc(step, file, Precision::fp32);
  tests::expect_refused([&] { export_llmc(step, file / "below", Precision::fp32); }, file.string() + ": is not a folder");
  import_llmc(file, folder);
  expect_same_tensors(theirs_, folder);
}

/// Built like Llama, with what each adds: nobody has written these weights, so any bits will do.
class ModelLikeLlama : public checkpoint::Together, public ::testing::WithParamInterface<const char*> {
 protected:
  static void like_gemma(model::Config& config) {
    config.activation = model::Activation::geglu;
    config.norm_offset = config.output_norms = config.scaled_embedding = config.tied_head = true;
    config.score_width = 19;
    config.logit_cap = 30;
    if (config.family == "gemma2") config.score_cap = 50;
    if (config.family == "gemma3_text") config.rotary.window_theta = 1e4, config.rotary.factor = 2, config.rotary.linear = true;
  }
  static model::Config config() {
    auto config = checkpoint::grouped_model();
    config.name = "m";
    config.family = GetParam();
    config.norm_epsilon = 1e-6;
    config.position_offset = 0;
    if (config.family != "llama") config.windows = {5};
    config.qkv_bias = config.family == "qwen2";
    config.query_key_norms = config.family == "qwen3" || config.family == "gemma3_text";
    if (config.query_key_norms) config.head_width = 6;
    if (config.family.starts_with("gemma")) like_gemma(config);
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

INSTANTIATE_TEST_SUITE_P(Families, ModelLikeLlama, ::testing::Values("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text"));

}  // namespace
}  // namespace flotilla::weights
