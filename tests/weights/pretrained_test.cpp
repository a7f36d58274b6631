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
  const Pretrained pretrained{folder_, config_};
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
  const Pretrained pretrained{folder_, config_};
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
  const Pretrained pretrained{folder, config};
  EXPECT_EQ(pretrained.files(), 1u);
  EXPECT_EQ(pretrained.precisions(), "fp32");
  EXPECT_EQ(pretrained.size().count, model::parameter_count(config) * 4);
}

}  // namespace
}  // namespace flotilla::weights
