#include "checksums.hpp"

#include <gtest/gtest.h>

#include "checkpoint/holding.hpp"
#include "flotilla/base/hash.hpp"
#include "linear_crc.hpp"

namespace flotilla::checkpoint::checksums_test {
namespace {

std::vector<std::byte> random_bytes(std::mt19937& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(LinearCrc, AgreesWithTheChecksumOfTheWhole) {
  std::mt19937 random{1};
  for (std::size_t size : {0u, 1u, 3u, 8u, 100u, 4096u, 70001u}) {
    const auto bytes = random_bytes(random, size);
    EXPECT_EQ(crc_of(extended(0, bytes), static_cast<std::int64_t>(size)), crc32c(bytes)) << size;
  }
}

TEST(LinearCrc, ShiftingIsAppendingZeros) {
  std::mt19937 random{2};
  for (std::size_t zeros : {0u, 1u, 7u, 64u, 1000u, 65537u}) {
    const auto bytes = random_bytes(random, 33);
    const std::vector<std::byte> tail(zeros);
    EXPECT_EQ(shifted(extended(0, bytes), static_cast<std::int64_t>(zeros)), extended(extended(0, bytes), tail)) << zeros;
  }
}

TEST(LinearCrc, PiecesCombineByXor) {
  std::mt19937 random{3};
  const auto bytes = random_bytes(random, 1000);
  std::vector<std::byte> odd(1000), even(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) (random() % 2 ? odd : even)[i] = bytes[i];
  EXPECT_EQ(extended(0, odd) ^ extended(0, even), extended(0, bytes));
}

TEST(Segments, CoverEveryShapeInOrder) {
  for (const auto& shape : {std::vector<std::int64_t>{1}, {7}, {262144}, {262145}, {1000, 768}, {3, 300000}, {5, 7, 9}}) {
    const Segments segments{shape};
    std::int64_t next = 0;
    for (std::int64_t s = 0; s < segments.count(); ++s) {
      const auto run = segments.run(s);
      EXPECT_EQ(run.first, next);
      EXPECT_GT(run.count, 0);
      EXPECT_LE(run.count, segments.most_elements());
      EXPECT_EQ(segments.of_element(run.first), s);
      EXPECT_EQ(segments.of_element(run.last() - 1), s);
      next = run.last();
    }
    std::int64_t elements = 1;
    for (auto extent : shape) elements *= extent;
    EXPECT_EQ(next, elements);
  }
}

/// Checksums of the whole state, each segment computed on its own.
std::vector<std::uint32_t> direct_checksums(const std::vector<model::Tensor>& tensors, const ChecksumIndex& index, std::uint64_t seed) {
  std::vector<std::uint32_t> checksums(index.size());
  for (auto kind : kinds)
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const Segments segments{tensors[t].shape};
      for (std::int64_t s = 0; s < segments.count(); ++s) {
        std::vector<float> values;
        for (std::int64_t i = segments.run(s).first; i < segments.run(s).last(); ++i)
          values.push_back(content(seed, kind, static_cast<int>(t), i));
        checksums[index.at(kind, t, s)] = crc32c(std::as_bytes(std::span{values}));
      }
    }
  return checksums;
}

void expect_layouts_agree(const model::Config& config, unsigned seed, int plans) {
  std::mt19937 random{seed};
  const auto tensors = model::tensors(config);
  const ChecksumIndex index{tensors};
  const auto expected = direct_checksums(tensors, index, seed);
  for (int round = 0; round < plans; ++round) {
    constexpr int ranks = 6;
    const auto plan = random_plan(random, config, ranks);
    std::vector<std::uint32_t> combined(index.size());
    std::vector<std::uint64_t> owned(tensors.size());
    std::uint32_t number = 0;
    for (int r = 0; r < ranks; ++r) {
      Holding holding{plan, Rank{r}};
      holding.fill(seed);
      const auto remainders = owned_remainders(holding.state(), index);
      add_owned_remainders(holding.state(), index, combined);
      add_owned_elements(holding.state(), owned);
      number ^= remainder_of_table(remainders);
    }
    ASSERT_EQ(remainder_of_table(combined), number);
    ASSERT_EQ(checksums_of(tensors, index, combined), expected) << plan::summary(plan);
    for (std::size_t t = 0; t < owned.size(); ++t) ASSERT_EQ(owned[t], static_cast<std::uint64_t>(tensors[t].elements()));
  }
}

TEST(Checksums, AreTheSameUnderEveryLayout) { expect_layouts_agree(odd_model(), 11, 25); }
TEST(Checksums, AreTheSameWhereTensorsHaveManySegments) { expect_layouts_agree(wide_model(), 12, 2); }

}  // namespace
}  // namespace flotilla::checkpoint::checksums_test
