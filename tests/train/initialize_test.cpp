#include "initialize.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "flotilla/train/options.hpp"

namespace flotilla::train {
namespace {

TEST(Initialize, ShardsOfAnyDegreeAreCutsOfTheWhole) {
  auto model = model::built_in("gpt2-mini");
  model.lora = {3, 3, {model::linears.begin(), model::linears.end()}, 1, 1};
  for (const auto& tensor : model::tensors(model)) {
    std::vector<float> whole(static_cast<std::size_t>(tensor.elements()));
    initialize(model, tensor, plan::shard(tensor, 1, 0), 7, whole);
    for (int degree : {2, 3}) {
      for (int index = 0; index < degree; ++index) {
        const auto shard = plan::shard(tensor, degree, index);
        std::vector<float> part(static_cast<std::size_t>(shard.elements()));
        initialize(model, tensor, shard, 7, part);
        for (const auto& box : plan::boxes(tensor, shard))
          for (std::int64_t o = 0; o < box.outer; ++o)
            for (std::int64_t i = 0; i < box.inner; ++i)
              ASSERT_EQ(part[static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)],
                        whole[static_cast<std::size_t>(box.global_offset + o * box.global_stride + i)])
                  << tensor.name;
      }
    }
  }
}

TEST(Initialize, MatricesAreNormalWithTheModelsDeviation) {
  const auto model = model::built_in("gpt2-mini");
  for (const auto& tensor : model::tensors(model)) {
    if (tensor.init != model::Init::normal && tensor.init != model::Init::normal_residual) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    initialize(model, tensor, plan::shard(tensor, 1, 0), 7, values);
    const double n = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    double square = 0;
    for (float v : values) square += (v - mean) * (v - mean);
    const bool scaled = tensor.init == model::Init::normal_residual && model.scaled_residual_init;
    const double want = model.init_std / (scaled ? std::sqrt(2.0 * model.blocks) : 1.0);
    EXPECT_NEAR(std::sqrt(square / n), want, 5 * want / std::sqrt(n)) << tensor.name;
    EXPECT_NEAR(mean, 0, 5 * want / std::sqrt(n)) << tensor.name;
  }
}

/// A is spread evenly as PEFT spreads it (kaiming_uniform_ of slope sqrt(5)), B is zero.
TEST(Initialize, AdaptersBeginAsPeftsDo) {
  auto model = model::built_in("gpt2-mini");
  model.lora = {8, 8, {model::linears.begin(), model::linears.end()}, 3, 1};
  for (const auto& tensor : model::tensors(model)) {
    if (!model::is_adapter(tensor)) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    initialize(model, tensor, plan::shard(tensor, 1, 0), 7, values);
    const bool a = tensor.name.ends_with(".lora_A");
    const double n = static_cast<double>(values.size()), most = a ? 1 / std::sqrt(static_cast<double>(tensor.shape[1])) : 0;
    double square = 0;
    for (const float v : values) {
      EXPECT_LE(std::abs(v), most * (1 + 1e-6));
      square += double{v} * v;
    }
    EXPECT_NEAR(square / n, most * most / 3, 5 * most * most / std::sqrt(n)) << tensor.name;
  }
}

}  // namespace
}  // namespace flotilla::train
