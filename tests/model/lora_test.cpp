// Adapters as tensors of a model, and as work of its operations.
#include <gtest/gtest.h>

#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/model/adapters.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::model::lora_test {
namespace {

Config adapted(const char* name, int rank, std::vector<Linear> targets, int qkv_parts, int up_parts) {
  Config c = built_in(name);
  c.lora = {rank, 2.0 * rank, std::move(targets), qkv_parts, up_parts};
  return c;
}

const std::vector<Linear> all{linears.begin(), linears.end()};

std::map<std::string, Tensor> by_name(const Config& c) {
  std::map<std::string, Tensor> found;
  for (const auto& tensor : tensors(c)) found.emplace(tensor.name, tensor);
  return found;
}

TEST(Lora, TensorsStandBehindTheModelsOwn) {
  const Config c = adapted("llama-tiny", 4, all, 3, 2);
  const auto own = tensors(c.fully_trained()), with = tensors(c);
  ASSERT_EQ(with.size(), own.size() + 8 * static_cast<std::size_t>(c.blocks));
  for (std::size_t t = 0; t < with.size(); ++t) {
    EXPECT_EQ(is_adapter(with[t]), t >= own.size()) << with[t].name;
    EXPECT_EQ(with[t].trained, t >= own.size()) << with[t].name;
    EXPECT_TRUE(t >= own.size() || with[t].name == own[t].name) << with[t].name;
  }
}

/// The half that meets what tensor parallelism cuts is cut alike; the other is whole and summed.
TEST(Lora, HalvesAreCutAsTheirWeights) {
  const auto found = by_name(adapted("llama-tiny", 4, all, 3, 2));
  for (const auto linear : linears) {
    const std::string name = std::string{"block.0."} + std::string{to_string(linear)};
    const auto &weight = found.at(name + ".weight"), &a = found.at(name + ".lora_A"), &b = found.at(name + ".lora_B");
    const int parts = linear == Linear::qkv ? 3 : linear == Linear::up ? 2 : 1;
    EXPECT_EQ(a.shape, (std::vector<std::int64_t>{4 * parts, weight.shape[1]}));
    EXPECT_EQ(b.shape, (std::vector<std::int64_t>{weight.shape[0], 4}));
    const Tensor &cut = weight.dimension == 0 ? b : a, &whole = weight.dimension == 0 ? a : b;
    EXPECT_EQ(cut.axis, weight.axis);
    EXPECT_EQ(cut.dimension, weight.dimension);
    EXPECT_EQ(cut.unit, weight.unit);
    EXPECT_EQ(cut.fused, weight.fused);
    EXPECT_EQ(whole.axis, Axis::none);
    EXPECT_TRUE(whole.summed);
    EXPECT_FALSE(cut.summed);
    EXPECT_EQ(a.init, Init::adapter);
    EXPECT_EQ(b.init, Init::zeros);
  }
}

TEST(Lora, OnlyTargetsHaveAdapters) {
  const auto found = by_name(adapted("gpt2-tiny", 2, {Linear::qkv}, 1, 1));
  EXPECT_TRUE(found.contains("block.1.attention.qkv.lora_A"));
  EXPECT_FALSE(found.contains("block.1.attention.out.lora_A"));
  EXPECT_FALSE(found.contains("block.1.feed_forward.up.lora_B"));
}

TEST(Lora, PatternsFreezeHalves) {
  Config c = adapted("gpt2-tiny", 2, all, 1, 1);
  c.frozen = {"*.lora_A"};
  for (const auto& [name, tensor] : by_name(c)) EXPECT_EQ(tensor.trained, name.ends_with(".lora_B")) << name;
  c.frozen = {"*.lora_?"};
  EXPECT_TRUE(wrong_with_frozen(c));
}

/// Whatever the degree, pieces cover a member's columns once, and every part's are as many as its matrix has there.
TEST(Lora, PiecesCoverTheColumns) {
  for (const auto& c : {adapted("llama-tiny", 4, all, 3, 2), adapted("gpt2-tiny", 4, all, 1, 1), adapted("opt-tiny", 4, all, 3, 1)})
    for (int degree = 1; degree <= largest_tensor_parallel(c) && degree <= 4; ++degree)
      for (const auto linear : linears) {
        std::map<int, std::int64_t> columns;
        for (int index = 0; index < degree; ++index) {
          const auto shape = adapter_shape(c, {1, 4, degree, index}, linear);
          std::int64_t next = 0;
          for (const auto& piece : shape.pieces) {
            EXPECT_EQ(piece.first, next);
            next += piece.count;
            columns[piece.part] += piece.count;
          }
          EXPECT_EQ(next, shape.out);
        }
        ASSERT_EQ(static_cast<int>(columns.size()), c.lora.parts(linear));
        if (linear == Linear::qkv && columns.size() == 3) {
          EXPECT_EQ(columns[0], c.hidden);
          EXPECT_EQ(columns[1], std::int64_t{c.groups()} * c.head_size());
          EXPECT_EQ(columns[2], columns[1]);
        }
        EXPECT_TRUE(linear != Linear::up || columns.size() != 2 || columns[0] == columns[1]);
      }
}

TEST(Lora, WorkIsCounted) {
  const Config c = adapted("llama-tiny", 4, {Linear::qkv, Linear::down}, 3, 2);
  const LayerShape s{2, 8};
  const double n = 16, d = c.hidden, qkv = static_cast<double>(qkv_width(c, s)), f = c.feed_forward;
  EXPECT_EQ(adapter_flops(c, s, Operation::attention_forward), 2 * n * (d * 12 + qkv * 4));
  EXPECT_EQ(adapter_flops(c, s, Operation::mlp_backward), 2 * n * (3 * f * 4 + 2 * d * 4));
  EXPECT_EQ(adapter_flops(c, s, Operation::mlp_backward_weights), 2 * n * (2 * f * 4 + 2 * d * 4));
  EXPECT_EQ(adapter_flops(c, s, Operation::head_backward), 0);
  EXPECT_EQ(adapter_workspace(c, s, Operation::attention_forward), Bytes{4 * 16 * 12});
  EXPECT_EQ(adapter_workspace(c, s, Operation::attention_backward), Bytes{2 * 4 * 16 * 12});
  EXPECT_EQ(workspace(c, s, Operation::mlp_backward, 1) - workspace(c.fully_trained(), s, Operation::mlp_backward, 1),
            Bytes{2 * 4 * 16 * 4});
  EXPECT_EQ(adapter_flops(c.fully_trained(), s, Operation::mlp_forward), 0);
}

/// The weights' halves of a split pass are there for the adapters; the weights themselves have no gradients.
TEST(Lora, WeightsHalvesAreTheAdapters) {
  const Config c = adapted("gpt2-tiny", 2, {Linear::out}, 1, 1);
  const auto list = tensors(c);
  EXPECT_TRUE(trains_products(c, list, Operation::attention_backward_weights, 1));
  EXPECT_FALSE(trains_weights(c, list, Operation::attention_backward_weights, 1));
  EXPECT_FALSE(trains_products(c, list, Operation::mlp_backward_weights, 1));
  EXPECT_EQ(first_trained_layer(c, list), 1);
}

TEST(Lora, ImpossibleOnesAreRefused) {
  const auto refused = [](auto change) {
    Config c = adapted("gpt2-tiny", 2, all, 1, 1);
    change(c.lora);
    try {
      check(c, "model");
    } catch (const Error& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  EXPECT_EQ(refused([](Lora&) {}), "");
  EXPECT_NE(refused([](Lora& l) { l.rank = 65; }).find("rank is 65"), std::string::npos);
  EXPECT_NE(refused([](Lora& l) { l.alpha = 0; }).find("alpha is 0"), std::string::npos);
  EXPECT_NE(refused([](Lora& l) { l.alpha = 1e300; }).find("at most 1e30"), std::string::npos);
  EXPECT_NE(refused([](Lora& l) { l.targets.clear(); }).find("no targets"), std::string::npos);
  EXPECT_NE(refused([](Lora& l) { l.targets.push_back(Linear::up); }).find("stands twice"), std::string::npos);
  EXPECT_NE(refused([](Lora& l) { l.qkv_parts = 2; }).find("1 or 3"), std::string::npos);
  EXPECT_NE(refused([](Lora& l) { l.up_parts = 2; }).find("SwiGLU"), std::string::npos);
  EXPECT_THROW(parse_linear("q_proj"), Error);
}

}  // namespace
}  // namespace flotilla::model::lora_test
