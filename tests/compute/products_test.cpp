#include "products.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "flotilla/base/half.hpp"
#include "kernels.hpp"
#include "parallel.hpp"

namespace flotilla::compute::cpu::test {
namespace {

/// Small integers: every sum and every product of them is exact in each precision, in whatever order it is added up.
class Integers {
 public:
  explicit Integers(std::uint32_t seed) : seed_{seed} {}
  int next() {
    state_ = state_ * 6364136223846793005u + 2 * seed_ + 1;
    return static_cast<int>(state_ >> 60) % 3 - 1;
  }

 private:
  std::uint64_t seed_, state_ = 12345;
};

/// Elements of a precision in memory, of a value that tells what nobody has written.
class Matrix {
 public:
  Matrix(std::int64_t elements, Precision precision) : precision_{precision}, bytes_(static_cast<std::size_t>(elements * size()), guard) {}
  std::int64_t size() const { return element_size(precision_).count; }
  void* data() { return bytes_.data(); }
  void set(std::int64_t at, float v) {
    const std::uint32_t bits = precision_ == Precision::fp32   ? std::bit_cast<std::uint32_t>(v)
                               : precision_ == Precision::bf16 ? std::bit_cast<std::uint32_t>(v) >> 16
                                                               : half_from_float(v);
    std::memcpy(&bytes_[static_cast<std::size_t>(at * size())], &bits, static_cast<std::size_t>(size()));
  }
  float at(std::int64_t at) const {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &bytes_[static_cast<std::size_t>(at * size())], static_cast<std::size_t>(size()));
    return precision_ == Precision::fp32   ? std::bit_cast<float>(bits)
           : precision_ == Precision::bf16 ? std::bit_cast<float>(bits << 16)
                                           : half_to_float(static_cast<std::uint16_t>(bits));
  }
  bool untouched(std::int64_t at) const {
    for (std::int64_t i = at * size(); i < (at + 1) * size(); ++i)
      if (bytes_[static_cast<std::size_t>(i)] != guard) return false;
    return true;
  }

 private:
  static constexpr std::byte guard{0x5A};
  Precision precision_;
  std::vector<std::byte> bytes_;
};

std::int64_t extent(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return (rows - 1) * row + (columns - 1) * column + 1;
}

/// Runs a product of small integers and compares every element with the exact one.
void expect_exact(const ProductSpec& s, int threads = 2) {
  SCOPED_TRACE(text(s.m, " x ", s.k, " by ", s.n, " in ", to_string(s.precision), s.c_fp32 ? ", c fp32" : "",
                    s.accumulate ? ", accumulate" : "", s.bias ? ", bias" : "", s.relu ? ", relu" : "", ", scale ", s.scale));
  Integers numbers{static_cast<std::uint32_t>(s.m + 3 * s.n + 7 * s.k)};
  const auto filled = [&](std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column, Precision p) {
    Matrix matrix{extent(rows, columns, row, column), p};
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) matrix.set(i * row + j * column, static_cast<float>(numbers.next()));
    return matrix;
  };
  Matrix a = filled(s.m, s.k, s.a_row, s.a_column, s.precision), b = filled(s.k, s.n, s.b_row, s.b_column, s.precision);
  Matrix bias = filled(1, s.n, s.n, 1, s.precision), c = filled(s.m, s.n, s.c_row, 1, s.c_fp32 ? Precision::fp32 : s.precision);
  const Matrix before = c;

  Product product{s, threads, 2};
  EXPECT_EQ(product.scratch_bytes(), scratch_bytes(s, threads)) << "the forecast";
  constexpr std::size_t behind = 4096;
  std::vector<std::byte> scratch(static_cast<std::size_t>(product.scratch_bytes()) + 64 + behind, std::byte{0xFF});  // NaN, were it read
  std::byte* aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
  const ThreadCount count{threads};
  ASSERT_TRUE(product.run({a.data(), b.data(), s.bias ? bias.data() : nullptr, c.data()}, aligned, 1));
  for (std::byte* p = aligned + product.scratch_bytes(); p < scratch.data() + scratch.size(); ++p) ASSERT_EQ(*p, std::byte{0xFF});

  std::vector<float> row(static_cast<std::size_t>(s.n)), wide_b(static_cast<std::size_t>(s.k * s.n));
  for (std::int64_t l = 0; l < s.k; ++l)
    for (std::int64_t j = 0; j < s.n; ++j) wide_b[static_cast<std::size_t>(l * s.n + j)] = b.at(l * s.b_row + j * s.b_column);
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) row[static_cast<std::size_t>(j)] = s.accumulate ? before.at(i * s.c_row + j) : 0.0f;
    for (std::int64_t l = 0; l < s.k; ++l)
      for (std::int64_t j = 0; j < s.n; ++j)
        row[static_cast<std::size_t>(j)] += a.at(i * s.a_row + l * s.a_column) * wide_b[static_cast<std::size_t>(l * s.n + j)];
    for (std::int64_t j = 0; j < s.n; ++j) {
      float expected = s.scale * (row[static_cast<std::size_t>(j)] + (s.bias ? bias.at(j) : 0.0f));
      if (s.relu) expected = std::max(expected, 0.0f);
      ASSERT_EQ(c.at(i * s.c_row + j), expected) << "row " << i << ", column " << j;
    }
    for (std::int64_t j = s.n; j < s.c_row && i + 1 < s.m; ++j) ASSERT_TRUE(c.untouched(i * s.c_row + j)) << "behind row " << i;
  }
}

/// Integers up to 256 are exact in bf16. Sums of k products of integers from -1 to 1 grow like sqrt(k), and stay below that here.
ProductSpec forward(Precision p, std::int64_t m, std::int64_t n, std::int64_t k) { return linear_forward(p, m, n, k); }

class ProductsTest : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, ProductsTest, testing::Values(Precision::fp32, Precision::bf16, Precision::fp16),
                         [](const auto& each) { return to_string(each.param); });

TEST_P(ProductsTest, OfOneBlock) {
  expect_exact(forward(GetParam(), 5, 7, 3));
  expect_exact(forward(GetParam(), 1, 1, 1));
  expect_exact(linear_input_gradient(GetParam(), 33, 20, 17));
  expect_exact(linear_weight_gradient(GetParam(), 33, 20, 17));
}

/// Dimensions beyond 1024 are cut.
TEST_P(ProductsTest, OfManyBlocks) {
  expect_exact(forward(GetParam(), 1100, 37, 50));
  expect_exact(forward(GetParam(), 37, 2100, 50));
  expect_exact(forward(GetParam(), 20, 30, 3100));
  expect_exact(forward(GetParam(), 1030, 1040, 20));
  expect_exact(linear_input_gradient(GetParam(), 40, 1050, 1030));
  expect_exact(linear_weight_gradient(GetParam(), 2500, 30, 1025));
}

/// Beyond 256 in a product of one thread.
TEST_P(ProductsTest, OfOneThread) {
  for (ProductSpec s : {forward(GetParam(), 128, 600, 64), linear_input_gradient(GetParam(), 128, 600, 64),
                        linear_weight_gradient(GetParam(), 128, 600, 64)}) {
    s.per_thread = true;
    expect_exact(s);
  }
}

TEST_P(ProductsTest, WhatIsDoneToSumsIsDoneOnce) {
  for (const std::int64_t k : {50, 1100}) {
    ProductSpec s = forward(GetParam(), 40, 70, k);
    s.bias = s.relu = true;
    expect_exact(s);
    s.accumulate = true;
    expect_exact(s);
    s.c_fp32 = true;
    expect_exact(s);
    s.bias = s.relu = false;
    s.scale = 0.5f;
    s.c_fp32 = true;
    expect_exact(s);
    s.accumulate = false;
    expect_exact(s);
  }
}

TEST_P(ProductsTest, RowsWithGaps) {
  ProductSpec s = forward(GetParam(), 40, 70, 1100);
  s.a_row += 11;
  s.b_column += 5;
  s.c_row += 9;
  expect_exact(s);
  ProductSpec gradient = linear_weight_gradient(GetParam(), 300, 70, 40);
  gradient.a_column += 3;
  gradient.b_row += 2;
  gradient.c_row += 7;
  expect_exact(gradient);
}

/// Numbers of many bits: the result is the exact sum, rounded once.
TEST_P(ProductsTest, RoundTheSumOnce) {
  if (GetParam() == Precision::fp32) GTEST_SKIP() << "nothing is rounded";
  const Precision p = GetParam();
  const std::int64_t k = 1500;
  Matrix a{k, p}, b{k, p}, c{1, p};
  for (std::int64_t l = 0; l < k; ++l) {
    a.set(l, 1.0f);
    b.set(l, l == 0 ? 256.0f : 1.0f / 64);  // 1/64 is lost in a sum of bf16 from 8 on, in one of fp16 from 64 on
  }
  Product product{linear_forward(p, 1, 1, k), 1, 1};
  std::vector<float> scratch(static_cast<std::size_t>(product.scratch_bytes()) / 4 + 16);
  ASSERT_TRUE(product.run({a.data(), b.data(), nullptr, c.data()}, reinterpret_cast<std::byte*>(scratch.data())));
  EXPECT_EQ(c.at(0), p == Precision::bf16 ? 280.0f : 279.5f) << "of 279.421875";
}

/// A vocabulary of any size takes no more than a small one. (oneDNN's products of bf16 without AMX copy blocks: 1.6 MiB a thread.)
TEST_P(ProductsTest, ScratchIsBounded) {
  const Precision multiplied = multiplies(GetParam()) ? GetParam() : Precision::fp32;
  const std::int64_t library = scratch_bytes(forward(multiplied, 8192, 1024, 4096), 2),
                     copies = multiplies(GetParam()) ? 0 : 3 * 4 * 1024 * 1024;
  EXPECT_LE(scratch_bytes(forward(GetParam(), 8192, 128256, 4096), 2), copies + std::max<std::int64_t>(library, 1 << 20));
}

TEST(Implementation, SaysHowHalvesAreMultiplied) {
  EXPECT_TRUE(multiplies(Precision::fp32));
  for (const Precision p : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const std::string name = implementation(forward(p, 64, 64, 64), 1);
    EXPECT_EQ(name.find(text(to_string(p), " by fp32 products")) == std::string::npos, multiplies(p)) << name;
  }
}

}  // namespace
}  // namespace flotilla::compute::cpu::test
