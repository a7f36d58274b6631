// Any layout loads what any other saved, bit by bit.
#include "checkpoint/session.hpp"

namespace flotilla::checkpoint::layouts_mpi_test {
namespace {

class Layouts : public Together {
 protected:
  void expect_survives(const plan::Plan& saved, const plan::Plan& wanted, std::uint64_t seed) {
    Holding before{saved, world_.rank()};
    before.fill(seed);
    save(before, static_cast<std::int64_t>(seed), {.keep = 1});
    Holding after{wanted, world_.rank()};
    const auto manifest = load(after, static_cast<std::int64_t>(seed));
    EXPECT_EQ(manifest.step, static_cast<std::int64_t>(seed));
    EXPECT_EQ(after.wrong(seed), 0) << plan::summary(saved) << " -> " << plan::summary(wanted);
  }
};

TEST_F(Layouts, RandomPairs) {
  std::mt19937 random{21};
  for (std::uint64_t round = 1; round <= 8; ++round)
    expect_survives(random_plan(random, odd_model(), size()), random_plan(random, odd_model(), size()), round);
}

TEST_F(Layouts, GroupsOfHeadsAndFusedHalves) {
  std::mt19937 random{25};
  for (std::uint64_t round = 1; round <= 4; ++round)
    expect_survives(random_plan(random, grouped_model(), size()), random_plan(random, grouped_model(), size()), round);
}

TEST_F(Layouts, TensorsOfManySegments) {
  std::mt19937 random{22};
  const auto tensor_parallel = plan::even_plan(wide_model(), 8, 60, Precision::fp32, 1, 1, size(), 1);
  expect_survives(tensor_parallel, random_plan(random, wide_model(), size()), 1);
  expect_survives(random_plan(random, wide_model(), size()), tensor_parallel, 2);
}

TEST_F(Layouts, OneRankOfMany) {
  std::mt19937 random{23};
  const auto alone = one_rank_plan(odd_model());
  expect_survives(alone, random_plan(random, odd_model(), size()), 1);
  expect_survives(random_plan(random, odd_model(), size()), alone, 2);
}

TEST_F(Layouts, BytesDoNotDependOnTheLayout) {
  std::mt19937 random{24};
  std::vector<std::uint32_t> checksums;
  for (std::int64_t step = 1; step <= 3; ++step) {
    Holding holding{random_plan(random, odd_model(), size()), world_.rank()};
    holding.fill(77);
    save(holding, step);
    checksums.push_back(read_manifest(step_directory(run_, step)).files.at(0).checksum);
  }
  EXPECT_EQ(checksums[0], checksums[1]);
  EXPECT_EQ(checksums[0], checksums[2]);
}

}  // namespace
}  // namespace flotilla::checkpoint::layouts_mpi_test
