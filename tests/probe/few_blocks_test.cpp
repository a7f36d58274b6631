#include "few_blocks.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "flotilla/base/error.hpp"

namespace {

using flotilla::Bytes;
using flotilla::Precision;
using flotilla::probe::distinct_blocks;
using flotilla::probe::FewBlocks;
using flotilla::probe::MeasuredShape;
using flotilla::probe::Pages;

TEST(Pages, AreZeroAndWritable) {
  const Pages pages{Bytes{100000}};
  EXPECT_EQ(pages.data()[99999], std::byte{0});
  std::memset(pages.data(), 1, 100000);
  EXPECT_EQ(pages.data()[99999], std::byte{1});
}

TEST(Pages, MoreThanAddressesThereAreIsUnavailable) {
  try {
    const Pages pages{Bytes{std::int64_t{1} << 60}};
    ADD_FAILURE() << "an exbibyte was granted";
  } catch (const flotilla::Error& error) {
    EXPECT_EQ(error.kind(), flotilla::ErrorKind::unavailable);
  }
}

class EveryModel : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryModel, EveryOperationRunsAtEveryShape) {
  const auto config = flotilla::model::built_in(GetParam());
  for (Precision precision : {Precision::fp32, Precision::bf16})
    for (int degree : {1, 2})
      for (int sequences : {1, 3}) {
        FewBlocks blocks{config, 16, MeasuredShape{precision, degree, sequences, true}, 1, 2};
        EXPECT_GT(blocks.flops(), 0);
        std::vector<std::vector<double>> samples;
        for (std::size_t pass = 1; pass <= 2; ++pass) {
          blocks.prepare();
          blocks.pass(samples);
          blocks.release();
          ASSERT_EQ(samples.size(), flotilla::probe::measured_count);
          for (int o = 0; o < flotilla::model::operation_count; ++o) {
            const auto operation = static_cast<flotilla::model::Operation>(o);
            const bool of_blocks = to_string(operation).find("mlp") == 0 || to_string(operation).find("attention") == 0;
            const std::size_t runs = of_blocks && config.windows.empty() ? 2 : 1;  // blocks of two kinds: their mean
            EXPECT_GE(samples[static_cast<std::size_t>(o)].size(), pass * runs)
                << to_string(operation) << " did not run, degree " << degree;
            for (double seconds : samples[static_cast<std::size_t>(o)]) EXPECT_GT(seconds, 0);
          }
        }
      }
}
TEST_P(EveryModel, EveryHalfRunsAfterAPass) {
  const auto config = flotilla::model::built_in(GetParam());
  for (Precision precision : {Precision::fp32, Precision::bf16})
    for (int degree : {1, 2}) {
      FewBlocks blocks{config, 16, MeasuredShape{precision, degree, 3, true}, 1, 2};
      std::vector<std::vector<double>> samples;
      for (std::size_t pass = 1; pass <= 2; ++pass) {
        blocks.prepare();
        blocks.pass(samples);
        auto wholes = samples;
        blocks.halves(samples);
        blocks.release();
        for (std::size_t o = 0; o < flotilla::probe::measured_count; ++o) {
          const auto operation = flotilla::probe::measured_operation(o);
          const auto whole = flotilla::model::whole_of(operation);
          const std::size_t runs = whole ? samples[flotilla::probe::measured_index(*whole)].size() : wholes[o].size();
          EXPECT_EQ(samples[o].size(), runs) << to_string(operation) << ", degree " << degree;
          for (double seconds : samples[o]) EXPECT_GT(seconds, 0);
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, EveryModel, ::testing::Values("gpt2-tiny", "opt-tiny", "opt-post-tiny", "gpt-neo-tiny", "llama-tiny"));

TEST(FewBlocks, TensorParallelismSharesTheWork) {
  const auto config = flotilla::model::built_in("gpt2-tiny");
  const FewBlocks whole{config, 32, {Precision::fp32, 1, 2, true}, 1, 1}, half{config, 32, {Precision::fp32, 2, 2, true}, 1, 1};
  EXPECT_NEAR(half.flops() / whole.flops(), 0.5, 1e-9);
  EXPECT_LT(half.memory(), whole.memory());
}

TEST(FewBlocks, BlocksOfTwoKindsAreOneRun) {
  FewBlocks blocks{flotilla::model::built_in("gpt-neo-tiny"), 16, {Precision::fp32, 1, 1, true}, 1, 2};
  std::vector<std::vector<double>> samples;
  blocks.prepare();
  for (std::size_t pass = 1; pass <= 3; ++pass) {
    blocks.pass(samples);
    EXPECT_EQ(samples[static_cast<std::size_t>(flotilla::model::Operation::attention_forward)].size(), pass);
  }
}

TEST(DistinctBlocks, AsManyAsACacheCannotHoldAndTheModelHas) {
  using flotilla::model::built_in;
  EXPECT_EQ(distinct_blocks(built_in("gpt2-tiny"), {Precision::fp32, 1, 1, true}), 2) << "all of a small model's";
  const int gpt2 = distinct_blocks(built_in("gpt2"), {Precision::fp32, 1, 1, true});
  EXPECT_EQ(gpt2, 3) << "7.1 million elements of 8 bytes a block";
  EXPECT_EQ(distinct_blocks(built_in("gpt2"), {Precision::fp32, 2, 1, true}), 5) << "half of that a block";
  EXPECT_EQ(distinct_blocks(built_in("opt-13b"), {Precision::fp32, 1, 1, true}), 1);
  EXPECT_EQ(distinct_blocks(built_in("gpt-neo-2.7b"), {Precision::fp32, 1, 1, true}), 2) << "one of each kind";
}

}  // namespace
