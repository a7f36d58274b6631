#include "one_block.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "flotilla/base/error.hpp"

namespace {

using flotilla::Bytes;
using flotilla::Precision;
using flotilla::Seconds;
using flotilla::probe::OneBlock;
using flotilla::probe::Pages;
using flotilla::probe::Shape;

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
        OneBlock block{config, 16, Shape{precision, degree, sequences, true}, 1};
        EXPECT_GT(block.flops(), 0);
        block.prepare();
        std::vector<Seconds> seconds;
        for (int pass = 0; pass < 2; ++pass) {
          block.pass(seconds);
          ASSERT_EQ(seconds.size(), static_cast<std::size_t>(flotilla::model::operation_count));
          for (int o = 0; o < flotilla::model::operation_count; ++o)
            EXPECT_GT(seconds[static_cast<std::size_t>(o)].value, 0)
                << to_string(static_cast<flotilla::model::Operation>(o)) << " did not run, degree " << degree;
        }
      }
}
INSTANTIATE_TEST_SUITE_P(BuiltIn, EveryModel, ::testing::Values("gpt2-tiny", "opt-tiny", "opt-post-tiny"));

TEST(OneBlock, TensorParallelismSharesTheWork) {
  const auto config = flotilla::model::built_in("gpt2-tiny");
  const OneBlock whole{config, 32, {Precision::fp32, 1, 2, true}, 1}, half{config, 32, {Precision::fp32, 2, 2, true}, 1};
  EXPECT_NEAR(half.flops() / whole.flops(), 0.5, 1e-9);
  EXPECT_LT(half.memory(), whole.memory());
}

}  // namespace
