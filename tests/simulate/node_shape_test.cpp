// Rings and chains among devices that no switch joins.
#include "network/node_shape.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "flotilla/files/catalogue_file.hpp"

namespace flotilla::simulate::node_shape_test {
namespace {

NodeShape first(const cluster::NodeLinks& links, int devices) {
  std::vector<int> numbers(static_cast<std::size_t>(devices));
  std::iota(numbers.begin(), numbers.end(), 0);
  return shape_of(links, numbers);
}

TEST(NodeShape, OfACycleAStarAndAPair) {
  const cluster::NodeLinks cycle{{1}, {{0, 1, 2}, {1, 2, 2}, {2, 3, 2}, {0, 3, 1}}};
  EXPECT_EQ(first(cycle, 4).rings, 2) << "one ring, both ways round: only one link leads back";
  EXPECT_EQ(first(cycle, 4).chains, 2);
  EXPECT_EQ(first(cycle, 2).rings, 2) << "two links of a pair";
  EXPECT_EQ(first(cycle, 3).rings, 0) << "a chain without a way back";
  EXPECT_EQ(first(cycle, 3).chains, 2);
  const cluster::NodeLinks star{{1}, {{0, 1, 1}, {0, 2, 1}, {0, 3, 1}}};
  EXPECT_EQ(first(star, 4).rings + first(star, 4).chains, 0);
  EXPECT_EQ(shape_of(star, {1, 2}).rings, 0) << "not joined";
}

/// As many rings as the published rates show (vTrain): 1, 2, 4, 2, 4 and 6 links at work among 2, 3, 4, 6, 7 and 8 devices; 5 make no ring.
TEST(NodeShape, OfAHybridCubeMesh) {
  const auto catalogue = files::built_in_catalogue();
  const auto* entry = cluster::find(catalogue, "V100-16-DGX-1");
  ASSERT_NE(entry, nullptr);
  const int rings[] = {1, 2, 4, 0, 2, 4, 6};
  for (int devices = 2; devices <= 8; ++devices) EXPECT_EQ(first(entry->node_links, devices).rings, rings[devices - 2]) << devices;
  EXPECT_EQ(first(entry->node_links, 5).chains, 2);
  EXPECT_EQ(shape_of(entry->node_links, {4, 5, 6, 7}).rings, 4) << "the other half is alike";
}

}  // namespace
}  // namespace flotilla::simulate::node_shape_test
