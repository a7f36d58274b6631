#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "cuda/products.hpp"
#include "flotilla/base/half.hpp"

namespace flotilla::compute::cuda {
namespace {

/// Operands of a product on the host: small whole numbers, so that sums are exact.
struct Case {
  ProductSpec spec;
  std::vector<std::uint16_t> a, b, bias;  // fp16
  std::vector<float> c;

  explicit Case(const ProductSpec& s)
      : spec{s},
        a(size(s.m, s.k, s.a_row, s.a_column)),
        b(size(s.k, s.n, s.b_row, s.b_column)),
        bias(static_cast<std::size_t>(s.n)),
        c(size(s.m, s.n, s.c_row, 1)) {
    std::minstd_rand random{1};
    const auto fill = [&](std::vector<std::uint16_t>& values) {
      for (auto& v : values) v = half_from_float(static_cast<float>(random() % 5) - 2);
    };
    fill(a), fill(b), fill(bias);
    for (float& v : c) v = static_cast<float>(random() % 7) - 3;
  }
  static std::size_t size(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>((rows - 1) * row + (columns - 1) * column + 1);
  }
  ProductOperands operands() { return {a.data(), b.data(), spec.bias ? bias.data() : nullptr, c.data()}; }
};

float at(const void* from, std::int64_t element) { return half_to_float(static_cast<const std::uint16_t*>(from)[element]); }

/// As ProductSpec says, with c in fp32.
void multiply(const ProductCall& call) {
  const ProductSpec& s = call.spec;
  auto* const c = static_cast<float*>(call.operands.c);
  for (std::int64_t row = 0; row < s.m; ++row)
    for (std::int64_t column = 0; column < s.n; ++column) {
      float sum = s.accumulate ? c[row * s.c_row + column] : 0;
      for (std::int64_t k = 0; k < s.k; ++k)
        sum += at(call.operands.a, row * s.a_row + k * s.a_column) * at(call.operands.b, k * s.b_row + column * s.b_column);
      if (s.bias) sum += at(call.operands.bias, column);
      if (s.relu && sum < 0) sum = 0;
      c[row * s.c_row + column] = sum;
    }
}

bool is_split(const ProductSpec& s) { return split_product(s, {}).has_value(); }

/// Both parts together do what the whole does, and the main one has whole packs of columns, rows or summands.
void expect_same(const ProductSpec& spec) {
  Case whole{spec}, split{spec};
  const auto parts = split_product(spec, split.operands());
  ASSERT_TRUE(parts);
  multiply({spec, whole.operands()});
  multiply(parts->rest);
  multiply(parts->main);
  EXPECT_EQ(whole.c, split.c);
  EXPECT_FALSE(is_split(parts->main.spec));
  EXPECT_FALSE(is_split(parts->rest.spec));
}

constexpr std::int64_t tokens = 3, width = 8, vocabulary = 1029, pitch = 1040;

ProductSpec to_logits() {
  auto s = linear_forward(Precision::fp16, tokens, vocabulary, width);
  s.c_row = pitch, s.c_fp32 = true;
  return s;
}

TEST(SplitProduct, OfAVocabularyThatIsNoMultipleOfEight) {
  expect_same(to_logits());
  auto input = linear_input_gradient(Precision::fp16, tokens, vocabulary, width);
  input.a_row = pitch, input.c_fp32 = true;
  expect_same(input);
  auto weights = linear_weight_gradient(Precision::fp16, tokens, vocabulary, width);
  weights.a_column = pitch;
  expect_same(weights);
}

TEST(SplitProduct, BiasAndReluComeLast) {
  auto s = to_logits();
  s.bias = s.relu = true;
  expect_same(s);
  auto sums = linear_forward(Precision::fp16, tokens, width, vocabulary);
  sums.a_row = sums.b_column = pitch;
  sums.c_fp32 = sums.bias = sums.relu = true;
  expect_same(sums);
}

TEST(SplitProduct, OnlyWhereItHelps) {
  auto fp32 = to_logits(), odd_pitch = to_logits(), few = to_logits(), even = to_logits();
  fp32.precision = Precision::fp32;
  odd_pitch.c_row = vocabulary;
  few.n = 21;
  even.n = 1024;
  for (const auto& s : {fp32, odd_pitch, few, even}) EXPECT_FALSE(is_split(s)) << s.n;
  auto scaled = linear_input_gradient(Precision::fp16, tokens, vocabulary, width);
  scaled.a_row = pitch;
  EXPECT_TRUE(is_split(scaled));
  scaled.scale = 2;
  EXPECT_FALSE(is_split(scaled)) << "what one part has scaled the other would scale again";
}

}  // namespace
}  // namespace flotilla::compute::cuda
