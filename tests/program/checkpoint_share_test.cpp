// What ranks write into a checkpoint: together the whole state, once.
#include "flotilla/program/checkpoint_share.hpp"

#include <gtest/gtest.h>

namespace flotilla::program::checkpoint_share_test {
namespace {

model::Config odd_model() {
  return {.name = "odd",
          .family = "gpt2",
          .blocks = 5,
          .hidden = 12,
          .heads = 3,
          .feed_forward = 37,
          .vocabulary = 61,
          .positions = 16,
          .embedding_width = 12};
}

Bytes of_all(const plan::Plan& plan, std::vector<Bytes>* by_rank = nullptr) {
  const auto program = lower(plan, {});
  Bytes sum;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const auto share = checkpoint_share(program, Rank{static_cast<int>(r)});
    if (by_rank != nullptr) by_rank->push_back(share);
    sum += share;
  }
  return sum;
}

Bytes state_of(const plan::Plan& plan) {
  Bytes sum;
  for (const auto& tensor : lower(plan, {}).tensors) sum += Bytes{(tensor.trained ? 12 : 4) * tensor.elements()};
  return sum;
}

TEST(CheckpointShare, SumsToTheStateUnderEveryPlan) {
  for (const int data : {1, 2, 3})
    for (const int pipeline : {1, 2, 3})
      for (const int tensor : {1, 3})
        for (const bool sharded : {false, true})
          for (const auto precision : {Precision::fp32, Precision::bf16}) {
            auto plan = plan::even_plan(odd_model(), 16, 12, precision, data, pipeline, tensor, 1);
            plan.shard_optimizer = sharded;
            EXPECT_EQ(of_all(plan), state_of(plan)) << plan::summary(plan) << (sharded ? ", sharded" : "");
            plan.model.frozen = {"embedding.*", "block.*.attention.*"};
            EXPECT_EQ(of_all(plan), state_of(plan)) << plan::summary(plan) << (sharded ? ", sharded" : "") << ", some of it frozen";
          }
}

TEST(CheckpointShare, OnlyTheFirstReplicaWritesUnlessTheOptimizerIsSharded) {
  auto plan = plan::even_plan(odd_model(), 16, 12, Precision::fp32, 3, 1, 1, 1);
  std::vector<Bytes> shares;
  of_all(plan, &shares);
  EXPECT_EQ(shares, (std::vector<Bytes>{state_of(plan), Bytes{0}, Bytes{0}}));
  plan.shard_optimizer = true;
  shares.clear();
  of_all(plan, &shares);
  for (const auto share : shares) EXPECT_LT(share, state_of(plan));
}

}  // namespace
}  // namespace flotilla::program::checkpoint_share_test
