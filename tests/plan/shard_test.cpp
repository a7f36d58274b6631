#include <gtest/gtest.h>

#include <numeric>

#include "flotilla/plan/shard_layout.hpp"
#include "plan/random_plan.hpp"

namespace flotilla::plan::shard_test {
namespace {

using model::Axis;
using testing::between;

/// Up to three dimensions, any of them cut, fused parts, heads wider than one element.
model::Tensor random_tensor(std::mt19937& random) {
  model::Tensor tensor;
  tensor.name = std::string(1, 't');
  const int dimensions = between(random, 1, 3);
  for (int d = 0; d < dimensions; ++d) tensor.shape.push_back(between(random, 1, 6));
  if (between(random, 0, 5) == 0) return tensor;
  tensor.axis = static_cast<Axis>(between(random, 1, 3));
  tensor.dimension = between(random, 0, dimensions - 1);
  tensor.fused = between(random, 1, 3);
  tensor.unit = between(random, 1, 4);
  tensor.shape[static_cast<std::size_t>(tensor.dimension)] = tensor.fused * tensor.unit * between(random, 1, 11);
  return tensor;
}

int random_degree(std::mt19937& random, const model::Tensor& tensor) {
  return tensor.axis == Axis::none ? between(random, 1, 5) : between(random, 1, static_cast<int>(tensor.units()));
}

template <class Visit>
void for_each_element(const std::vector<Box>& boxes, Visit visit) {
  for (const Box& box : boxes)
    for (std::int64_t o = 0; o < box.outer; ++o)
      for (std::int64_t i = 0; i < box.inner; ++i)
        visit(static_cast<std::size_t>(box.global_offset + o * box.global_stride + i),
              static_cast<std::size_t>(box.local_offset + o * box.local_stride + i));
}

TEST(Shard, ShardsOfAGroupTileTheTensorOnce) {
  std::mt19937 random{1};
  for (int round = 0; round < 2000; ++round) {
    const model::Tensor tensor = random_tensor(random);
    const int degree = random_degree(random, tensor);
    std::vector<int> covered(static_cast<std::size_t>(tensor.elements()), 0);
    for (int index = 0; index < degree; ++index) {
      const Shard part = shard(tensor, degree, index);
      std::vector<int> filled(static_cast<std::size_t>(part.elements()), 0);
      for_each_element(boxes(tensor, part), [&](std::size_t global, std::size_t local) {
        ++covered.at(global);
        ++filled.at(local);
      });
      ASSERT_TRUE(std::ranges::all_of(filled, [](int n) { return n == 1; })) << "a shard is filled exactly once";
    }
    const int copies = tensor.axis == Axis::none ? degree : 1;
    ASSERT_TRUE(std::ranges::all_of(covered, [&](int n) { return n == copies; }));
  }
}

TEST(Shard, ScatterThenGatherUnderAnotherDegreeKeepsEveryElement) {
  std::mt19937 random{2};
  for (int round = 0; round < 500; ++round) {
    const model::Tensor tensor = random_tensor(random);
    std::vector<int> whole(static_cast<std::size_t>(tensor.elements()));
    std::iota(whole.begin(), whole.end(), 1);
    const std::vector<int> original = whole;
    for (int pass = 0; pass < 2; ++pass) {
      const int degree = random_degree(random, tensor);
      std::vector<std::vector<int>> parts;
      for (int index = 0; index < degree; ++index) {
        const Shard part = shard(tensor, degree, index);
        parts.emplace_back(static_cast<std::size_t>(part.elements()));
        for_each_element(boxes(tensor, part), [&](std::size_t global, std::size_t local) { parts.back()[local] = whole[global]; });
      }
      std::ranges::fill(whole, 0);
      for (int index = 0; index < degree; ++index)
        for_each_element(boxes(tensor, shard(tensor, degree, index)),
                         [&](std::size_t global, std::size_t local) { whole[global] = parts[static_cast<std::size_t>(index)][local]; });
    }
    ASSERT_EQ(whole, original);
  }
}

TEST(Shard, FusedQkvIsCutByHeadInEachPart) {
  model::Tensor qkv{"qkv", 1, -1, {12, 5}, Axis::head, 0, 3, 2, {}, true};  // two heads of two rows each, for q, k and v
  const Shard second = shard(qkv, 2, 1);
  EXPECT_EQ(second.shape, (std::vector<std::int64_t>{6, 5}));
  EXPECT_EQ(second.intervals, (std::vector<ShardInterval>{{2, 2, 0}, {6, 2, 2}, {10, 2, 4}}));
  EXPECT_EQ(boxes(qkv, second)[1], (Box{1, 10, 30, 60, 10, 30}));
}

TEST(Shard, ElementOrderInsideAShardIsThatOfTheWholeWithoutTheRest) {
  std::mt19937 random{4};
  for (int round = 0; round < 300; ++round) {
    const model::Tensor tensor = random_tensor(random);
    const int degree = random_degree(random, tensor);
    const Shard part = shard(tensor, degree, degree - 1);
    std::vector<std::size_t> global_of(static_cast<std::size_t>(part.elements()));
    for_each_element(boxes(tensor, part), [&](std::size_t global, std::size_t local) { global_of[local] = global; });
    ASSERT_TRUE(std::ranges::is_sorted(global_of));
  }
}

}  // namespace
}  // namespace flotilla::plan::shard_test
