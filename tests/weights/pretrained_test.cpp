// Weights as Hugging Face's modules have written them (tests/reference/README.md) against the formulas that they were filled by.
#include "flotilla/weights/pretrained.hpp"

#include <gtest/gtest.h>

#include "flotilla/model/tensors.hpp"
#include "support/refusal.hpp"
#include "weights/folder.hpp"

namespace flotilla::weights {
namespace {

using tests::expect_refused;
using tests::ModelFolder;

class PretrainedModel : public ::testing::TestWithParam<const char*> {
 protected:
  const model::Config config_ = tests::reference_numbers(GetParam()).model;
  const ModelFolder folder_{GetParam()};
};

TEST_P(PretrainedModel, EveryShardHasTheBitsOfTheWhole) {
  Pretrained pretrained{folder_, config_};
  const auto tensors = model::tensors(config_);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto whole = tests::reference_weights(tensors[t]);
    for (int degree = 1; degree <= model::largest_tensor_parallel(config_); ++degree)
      for (int index = 0; index < degree; ++index) {
        const auto shard = plan::shard(tensors[t], degree, index);
        const auto boxes = plan::boxes(tensors[t], shard);
        std::vector<float> values(static_cast<std::size_t>(shard.elements()), -9.0f);
        pretrained.read(static_cast<int>(t), boxes, values);
        for (const auto& box : boxes)
          for (std::int64_t o = 0; o < box.outer; ++o)
            for (std::int64_t i = 0; i < box.inner; ++i)
              ASSERT_EQ(values[static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)],
                        whole[static_cast<std::size_t>(box.global_offset + o * box.global_stride + i)])
                  << tensors[t].name << " of member " << index << " of " << degree;
      }
  }
}

TEST_P(PretrainedModel, AnyRunOfElementsIsRead) {
  Pretrained pretrained{folder_, config_};
  const auto tensors = model::tensors(config_);
  std::mt19937 random{7};
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto whole = tests::reference_weights(tensors[t]);
    for (int trial = 0; trial < 20; ++trial) {
      const auto first = static_cast<std::int64_t>(random() % whole.size());
      const auto count = 1 + static_cast<std::int64_t>(random() % (whole.size() - static_cast<std::size_t>(first)));
      std::vector<float> values(static_cast<std::size_t>(count));
      pretrained.read(static_cast<int>(t), {{.inner = count, .global_offset = first}}, values);
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(values[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(first + i)]) << tensors[t].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PretrainedModel, ::testing::ValuesIn(tests::reference_models));

TEST(Pretrained, RefusesWeightsOfAnotherModel) {
  const ModelFolder folder{"llama"};
  auto config = tests::reference_numbers("llama").model;
  const auto open = [&] { Pretrained(folder, config); };
  config.vocabulary = 62;
  expect_refused(open, "model.safetensors: tensor 'model.embed_tokens.weight'", "61 x 24", "62 x 24");
  config = tests::reference_numbers("llama").model;
  config.qkv_bias = true;
  expect_refused(open, folder.path().string(), "'model.layers.0.self_attn.q_proj.bias' is missing");
  config = tests::reference_numbers("llama").model;
  config.blocks = 1;
  expect_refused(open, "tensor 'model.layers.1.", "has no place in the llama model");
  config.family = "invented";
  EXPECT_EQ(tests::error_of(open).kind(), ErrorKind::unavailable);
}

TEST(Pretrained, SaysWhatItHolds) {
  const ModelFolder folder{"gpt2"};
  const auto config = tests::reference_numbers("gpt2").model;
  Pretrained pretrained{folder, config};
  EXPECT_EQ(pretrained.files(), 1u);
  EXPECT_EQ(pretrained.precisions(), "fp32");
  EXPECT_EQ(pretrained.size().count, model::parameter_count(config) * 4);
}

/// Whoever reads it, and whichever part: the tensor is named as in the file, and all that is wrong in it is counted.
TEST(Pretrained, RefusesWhatNoTrainingGoesOnFrom) {
  const auto config = tests::reference_numbers("llama").model;
  const auto tensors = model::tensors(config);
  const auto read = [&](const std::filesystem::path& folder, Precision precision) {
    Pretrained pretrained{folder, config};
    std::vector<float> values;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      values.resize(static_cast<std::size_t>(tensors[t].elements()));
      pretrained.read(static_cast<int>(t), {{.inner = tensors[t].elements()}}, values, precision);
    }
  };
  const auto infinity = std::numeric_limits<float>::infinity();
  for (const std::string tensor : {"model.norm.weight", "model.layers.1.self_attn.k_proj.weight", "model.layers.0.mlp.up_proj.weight"}) {
    const ModelFolder folder{"llama"};
    const auto file = folder / "model.safetensors";
    read(folder, Precision::fp16);
    tests::put(file, tensor, 3, 7e4f);
    EXPECT_NO_THROW(read(folder, Precision::bf16));
    EXPECT_NO_THROW(Pretrained(folder, config).scan());
    expect_refused([&] { read(folder, Precision::fp16); }, "tensor '" + tensor + "': 1 of ", "beyond what fp16 holds: 70000");
    tests::put(file, tensor, 3, std::nanf(""));
    tests::put(file, tensor, 5, -infinity);
    for (const auto precision : {Precision::fp32, Precision::fp16})
      expect_refused([&] { read(folder, precision); }, "tensor '" + tensor + "': 2 of ", "are not finite, the first: nan");
    expect_refused([&] { Pretrained(folder, config).scan(); }, "tensor '" + tensor + "': 2 of ", "are not finite, the first: nan");
  }
}

/// A tied head that is written a second time is compared, in every family: dropped, another one would be another model.
TEST(Pretrained, ComparesATiedHeadThatIsWrittenTwice) {
  for (const std::string model : tests::reference_models) {
    const ModelFolder folder{model};
    auto config = tests::reference_numbers(model).model;
    if (!config.tied_head) continue;
    const auto file = folder / "model.safetensors";
    const auto tensors = model::tensors(config);
    std::vector<float> word(static_cast<std::size_t>(tensors.front().elements()));
    Pretrained(folder, config).read(0, {{.inner = tensors.front().elements()}}, word);
    tests::append(file, "lm_head.weight", tensors.front().shape, word);
    EXPECT_NO_THROW(Pretrained(folder, config).require_tied()) << model;
    EXPECT_EQ(Pretrained(folder, config).unused(), std::vector<std::string>{"lm_head.weight"});
    tests::put(file, "lm_head.weight", 7, word[7] + 1);
    for (const bool all : {false, true})
      expect_refused([&] { all ? void(Pretrained(folder, config).scan()) : Pretrained(folder, config).require_tied(); },
                     "tensor 'lm_head.weight': 1 of " + std::to_string(word.size()) + " elements differ",
                     "\"tie_word_embeddings\": false there to keep it");
  }
}

TEST(Pretrained, ATiedHeadOfOtherExtentsIsAnotherMatrix) {
  const ModelFolder folder{"gpt2"};
  tests::append(folder / "model.safetensors", "lm_head.weight", {1, 3}, {1, 2, 3});
  expect_refused([&] { Pretrained(folder, tests::reference_numbers("gpt2").model).require_tied(); },
                 "tensor 'lm_head.weight' is not the embedding");
}

TEST(Pretrained, NamesWhatIsNotUsed) {
  const ModelFolder folder{"gpt2"};
  const auto config = tests::reference_numbers("gpt2").model;
  EXPECT_TRUE(Pretrained(folder, config).unused().empty());
  tests::append(folder / "model.safetensors", "transformer.h.0.attn.bias", {2}, {1, 2});
  tests::append(folder / "model.safetensors", "transformer.h.1.attn.bias", {2}, {1, 2});
  for (const auto* other : {"adapter_model.safetensors", "model.safetensors.index.json", "notes.txt"})
    files::write_text(folder / other, "");
  const std::vector<std::string> expected{"transformer.h.*.attn.bias (2)", "adapter_model.safetensors", "model.safetensors.index.json"};
  EXPECT_EQ(Pretrained(folder, config).unused(), expected);
}

TEST(Pretrained, NamesMatricesOfZeros) {
  const ModelFolder folder{"llama"};
  const auto config = tests::reference_numbers("llama").model;
  EXPECT_TRUE(Pretrained(folder, config).scan().empty());
  const std::string tensor = "model.layers.0.self_attn.o_proj.weight";
  for (int i = 0; i < config.hidden * config.hidden; ++i) tests::put(folder / "model.safetensors", tensor, i, i % 2 == 0 ? 0.0f : -0.0f);
  EXPECT_EQ(Pretrained(folder, config).scan(), std::vector{tensor});
  const auto tensors = model::tensors(config);
  const auto all = std::vector{tensor}, none = std::vector<std::string>{};
  Pretrained left{folder, config}, right{folder, config};  // two ranks, and what each reads
  const auto read = [&](Pretrained& rank, std::int64_t part) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      std::vector<float> values(static_cast<std::size_t>(tensors[t].elements() / 2));
      rank.read(static_cast<int>(t), {{.inner = std::ssize(values), .global_offset = part * std::ssize(values)}}, values);
    }
  };
  EXPECT_EQ(left.all_zero({left.seen()}), none) << "nothing was read";
  read(left, 0);
  EXPECT_EQ(left.all_zero({left.seen(), right.seen()}), all);
  tests::put(folder / "model.safetensors", tensor, config.hidden * config.hidden - 1, 1);
  read(right, 1);
  EXPECT_EQ(left.all_zero({left.seen(), right.seen()}), none);
}

}  // namespace
}  // namespace flotilla::weights
