#include "flotilla/topology/threads.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

namespace flotilla::topology::threads_test {
namespace {

using flotilla::topology::CpuShare;
using flotilla::topology::effective_cpus;
using flotilla::topology::threads_per_rank;

std::vector<int> range(int first, int last) {
  std::vector<int> numbers(static_cast<std::size_t>(last - first));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST(ThreadsPerRank, UnboundRanksShareEqually) {
  const std::vector<CpuShare> ranks(3, {range(0, 8), 0});
  for (int r = 0; r < 3; ++r) EXPECT_EQ(threads_per_rank(ranks, r), 2);
}

TEST(ThreadsPerRank, DivisionByThreeLosesNothing) {
  const std::vector<CpuShare> ranks(3, {range(0, 9), 0});
  EXPECT_EQ(threads_per_rank(ranks, 1), 3);
}

TEST(ThreadsPerRank, DisjointBindingsKeepTheirOwnSets) {
  const std::vector<CpuShare> ranks{{range(0, 6), 0}, {range(6, 8), 0}};
  EXPECT_EQ(threads_per_rank(ranks, 0), 6);
  EXPECT_EQ(threads_per_rank(ranks, 1), 2);
}

TEST(ThreadsPerRank, PartlyOverlappingSetsCountSharedThreadsInParts) {
  const std::vector<CpuShare> ranks{{range(0, 4), 0}, {range(2, 6), 0}};  // 2 own + 2 halves each
  EXPECT_EQ(threads_per_rank(ranks, 0), 3);
  EXPECT_EQ(threads_per_rank(ranks, 1), 3);
}

TEST(ThreadsPerRank, MoreRanksThanThreadsGetOne) {
  const std::vector<CpuShare> ranks(5, {range(0, 2), 0});
  for (int r = 0; r < 5; ++r) EXPECT_EQ(threads_per_rank(ranks, r), 1);
}

TEST(ThreadsPerRank, QuotaIsSharedByTheNode) {
  const std::vector<CpuShare> ranks(2, {range(0, 64), 6.0});
  EXPECT_EQ(threads_per_rank(ranks, 0), 3);
  const std::vector<CpuShare> starved(2, {range(0, 64), 0.5});
  EXPECT_EQ(threads_per_rank(starved, 1), 1);
}

TEST(BoundThreads, AreIdleWhereALauncherKeepsThemFromEveryRank) {
  EXPECT_TRUE(bound_threads({{{0}, 0}}, 64).some_idle());
  EXPECT_EQ(bound_threads({{{0}, 0}, {{1}, 0}}, 64).used, 2);
  EXPECT_FALSE(bound_threads({{{0}, 0}, {{1}, 0}}, 2).some_idle()) << "each its own core, all of them";
  EXPECT_FALSE(bound_threads({{range(0, 64), 0}}, 64).some_idle());
  EXPECT_FALSE(bound_threads({{range(0, 6), 6}}, 64).some_idle()) << "a quota gives no more";
  EXPECT_TRUE(bound_threads({{{0}, 6}}, 64).some_idle());
}

TEST(ThreadsPerRank, NeverHandsOutMoreThanTheNodeHas) {
  std::mt19937 random{7};
  for (int round = 0; round < 200; ++round) {
    const int cpus = 1 + static_cast<int>(random() % 64), count = 1 + static_cast<int>(random() % 9);
    std::vector<CpuShare> ranks;
    std::set<int> all;
    for (int r = 0; r < count; ++r) {
      const int first = static_cast<int>(random() % static_cast<unsigned>(cpus));
      ranks.push_back({range(first, first + 1 + static_cast<int>(random() % static_cast<unsigned>(cpus - first))), 0});
      all.insert(ranks.back().usable.begin(), ranks.back().usable.end());
    }
    int sum = 0;
    for (int r = 0; r < count; ++r) {
      const int threads = threads_per_rank(ranks, r);
      ASSERT_GE(threads, 1);
      ASSERT_LE(threads, static_cast<int>(ranks[static_cast<std::size_t>(r)].usable.size()));
      sum += threads;
    }
    EXPECT_LE(sum, static_cast<int>(all.size()) + count) << "only the minimum of one may exceed the node";
  }
}

TEST(EffectiveCpus, TightestCounts) {
  EXPECT_EQ(effective_cpus(8, 0), 8);
  EXPECT_EQ(effective_cpus(8, 2.5), 2);
  EXPECT_EQ(effective_cpus(2, 100), 2);
  EXPECT_EQ(effective_cpus(8, 0.25), 1);
}

}  // namespace
}  // namespace flotilla::topology::threads_test
