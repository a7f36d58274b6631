#include "permutation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace flotilla::data {
namespace {

std::vector<std::int64_t> order_of(const Permutation& permutation) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < permutation.size(); ++i) order.push_back(permutation(i));
  return order;
}

void expect_bijection(std::int64_t size, std::uint64_t seed, std::uint64_t purpose) {
  std::vector<int> hits(static_cast<std::size_t>(size), 0);
  for (const auto element : order_of(Permutation{size, seed, purpose})) {
    ASSERT_GE(element, 0);
    ASSERT_LT(element, size);
    ++hits[static_cast<std::size_t>(element)];
  }
  for (std::size_t i = 0; i < hits.size(); ++i) ASSERT_EQ(hits[i], 1) << "element " << i << " of " << size;
}

TEST(Permutation, IsABijectionForEverySmallSize) {
  for (std::int64_t size = 1; size <= 130; ++size) expect_bijection(size, 42, static_cast<std::uint64_t>(size));
}

TEST(Permutation, IsABijectionForPrimesPowersAndTheirNeighbours) {
  for (const std::int64_t size : {251, 255, 256, 257, 625, 1009, 1023, 1024, 1025, 4095, 4096, 4097, 7919, 10000, 10007}) {
    for (const std::uint64_t seed : {0u, 1u, 12345u}) expect_bijection(size, seed, 7);
  }
}

TEST(Permutation, StaysInsideHugeSizesWithoutCollision) {
  for (const std::int64_t size : {(std::int64_t{1} << 40) + 1, (std::int64_t{1} << 62) - 57, std::int64_t{0x7FFFFFFFFFFFFFFF}}) {
    const Permutation permutation{size, 3, 4};
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < 200; ++i) {
      for (const auto position : {i, size - 1 - i, size / 200 * i + 500}) {
        const auto element = permutation(position);
        EXPECT_GE(element, 0);
        EXPECT_LT(element, size);
        seen.insert(element);
      }
    }
    EXPECT_EQ(seen.size(), 600u) << size;
  }
}

TEST(Permutation, DependsOnSeedAndPurpose) {
  const std::set<std::vector<std::int64_t>> orders{order_of({100, 1, 1}), order_of({100, 1, 2}), order_of({100, 2, 1}),
                                                   order_of({100, 2, 2})};
  EXPECT_EQ(orders.size(), 4u);
  EXPECT_EQ(order_of({100, 1, 2}), order_of({100, 1, 2}));
}

TEST(Permutation, ReachesEveryOrderOfAFewElementsAboutEquallyOften) {
  for (const std::int64_t size : {2, 3, 4}) {
    const double orders = std::tgamma(static_cast<double>(size) + 1);
    std::map<std::vector<std::int64_t>, int> counts;
    constexpr int draws = 4800;
    for (std::uint64_t seed = 0; seed < draws; ++seed) ++counts[order_of({size, seed, 99})];
    EXPECT_EQ(static_cast<double>(counts.size()), orders) << size;
    for (const auto& [order, count] : counts) {
      EXPECT_NEAR(count, draws / orders, draws / orders * 0.35) << size << " elements, beginning with " << order[0];
    }
  }
}

TEST(Permutation, SpreadsNeighbours) {
  // In a random order of 10,000 about one neighbour pair is also neighbours afterwards.
  const auto order = order_of({10000, 5, 6});
  int still_neighbours = 0;
  double correlation = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    still_neighbours += order[i + 1] == order[i] + 1;
    correlation += (static_cast<double>(order[i]) - 4999.5) * (static_cast<double>(order[i + 1]) - 4999.5);
  }
  EXPECT_LT(still_neighbours, 8);
  EXPECT_LT(std::abs(correlation / 10000 / (10000.0 * 10000.0 / 12)), 0.05);
}

}  // namespace
}  // namespace flotilla::data
