#include <gtest/gtest.h>

#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "plan/random_plan.hpp"

namespace flotilla::plan::shard_layout_test {
namespace {

bool holds(const Stage& stage, const model::Tensor& tensor) {
  const auto inside = [&](int layer) { return stage.first_layer <= layer && layer < stage.last_layer; };
  return inside(tensor.layer) || (tensor.tied_layer >= 0 && inside(tensor.tied_layer));
}

TEST(ShardLayout, EveryElementHasExactlyOneOwner) {
  std::mt19937 random{21};
  for (int round = 0; round < 15; ++round) {
    const ShardLayout layout = shard_layout(testing::random_plan(random));
    ASSERT_EQ(layout.holders.size(), layout.tensors.size());
    for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
      const model::Tensor& tensor = layout.tensors[t];
      std::vector<char> owners(static_cast<std::size_t>(tensor.elements()), 0);
      for (const Holder& holder : layout.holders[t]) {
        if (!holder.owner) continue;
        for (const Box& box : boxes(tensor, shard(tensor, holder.tensor_parallel, holder.tensor_index)))
          for (std::int64_t o = 0; o < box.outer; ++o)
            for (std::int64_t i = 0; i < box.inner; ++i) ++owners[static_cast<std::size_t>(box.global_offset + o * box.global_stride + i)];
      }
      ASSERT_TRUE(std::ranges::all_of(owners, [](char n) { return n == 1; })) << tensor.name;
    }
  }
}

TEST(ShardLayout, HoldersAreTheRanksOfTheStagesThatUseATensor) {
  std::mt19937 random{22};
  for (int round = 0; round < 50; ++round) {
    const Plan plan = testing::random_plan(random);
    const ShardLayout layout = shard_layout(plan);
    for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
      std::map<Rank, int> listed;
      for (const Holder& holder : layout.holders[t]) {
        ++listed[holder.rank];
        const RankCoordinates place = place_of(plan, holder.rank);
        const Stage& stage = plan.stages[static_cast<std::size_t>(place.stage)];
        ASSERT_TRUE(holds(stage, layout.tensors[t]));
        ASSERT_EQ(holder.tensor_index, place.tensor_index);
        ASSERT_EQ(holder.tensor_parallel, stage.replicas[static_cast<std::size_t>(place.replica)].tensor_parallel);
      }
      for (int r = 0; r < rank_count(plan); ++r) {
        const bool expected = holds(plan.stages[static_cast<std::size_t>(place_of(plan, Rank{r}).stage)], layout.tensors[t]);
        ASSERT_EQ(listed[Rank{r}], expected ? 1 : 0) << layout.tensors[t].name << " on rank " << r;
      }
    }
  }
}

TEST(ShardLayout, OwnersAreThoseAmongTheHolders) {
  std::mt19937 random{22};
  for (int round = 0; round < 50; ++round) {
    const Plan plan = testing::random_plan(random);
    const ShardLayout layout = shard_layout(plan);
    const auto owned = owners(plan, layout.tensors);
    ASSERT_EQ(owned.size(), layout.tensors.size());
    for (std::size_t t = 0; t < owned.size(); ++t) {
      std::vector<Rank> expected;
      for (const Holder& holder : layout.holders[t])
        if (holder.owner) expected.push_back(holder.rank);
      EXPECT_EQ(owned[t], expected) << layout.tensors[t].name;
    }
  }
}

TEST(ShardLayout, ATiedTableIsOwnedByTheFirstStage) {
  const Plan plan = even_plan(model::built_in("gpt2-tiny"), 16, 4, Precision::fp32, 2, 2, 2, 1);
  const ShardLayout layout = shard_layout(plan);
  const auto word = std::ranges::find(layout.tensors, "embedding.word", &model::Tensor::name) - layout.tensors.begin();
  std::vector<int> holders, owners;
  for (const Holder& holder : layout.holders[static_cast<std::size_t>(word)]) {
    holders.push_back(holder.rank.value);
    if (holder.owner) owners.push_back(holder.rank.value);
  }
  EXPECT_EQ(holders, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(owners, (std::vector{0, 1}));
}

TEST(ShardLayout, RefusesAPlanWithoutDevices) {
  Plan plan = even_plan(model::built_in("gpt2-tiny"), 16, 4, Precision::fp32, 1, 1, 1, 1);
  plan.stages[0].replicas[0].devices.clear();
  EXPECT_THROW(shard_layout(plan), Error);
}

TEST(TensorsOfStage, KeepOrderAndIncludeTiedOnes) {
  const Plan plan = even_plan(model::built_in("opt-post-tiny"), 16, 4, Precision::fp32, 1, 2, 1, 1);
  const auto tensors = model::tensors(plan.model);
  const std::vector<int> last = tensors_of_stage(tensors, plan.stages[1]);
  EXPECT_TRUE(std::ranges::is_sorted(last));
  std::vector<std::string> names;
  for (const int t : last) names.push_back(tensors[static_cast<std::size_t>(t)].name);
  EXPECT_EQ(names.front(), "embedding.word");
  EXPECT_EQ(names.back(), "head.project_out");
  EXPECT_EQ(std::ranges::count(names, std::string{"embedding.position"}), 0);
}

}  // namespace
}  // namespace flotilla::plan::shard_layout_test
