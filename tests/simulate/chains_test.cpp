#include "machine/chains.hpp"

#include <gtest/gtest.h>

#include "small_program.hpp"

// Which instructions are run in one go.
namespace flotilla::chains_test {
namespace {

using fixture::compute;
using fixture::message;
using fixture::rank_class;
using fixture::receive;
using fixture::sum;
using program::RankClass;

/// Of the class's only block; all instructions but messages are local unless told.
std::vector<int> continued(const RankClass& c, std::vector<char> local = {}) {
  if (local.empty())
    for (const auto& instruction : c.instructions) local.push_back(instruction.as<program::MessageEnd>() != nullptr ? 0 : 1);
  const auto found = simulate::continued_steps(c, local);
  return {found.at(0).begin(), found.at(0).end()};
}

TEST(Chains, ComputeFollowsCompute) {
  EXPECT_EQ(continued(rank_class({compute("a"), compute("b"), compute("c")}, 4)), (std::vector{0, 1, 1}));
}

TEST(Chains, TensorParallelSumsBetweenOperationsBelongToTheChain) {
  const auto c =
      rank_class({compute("a"), sum("s", 0, {{0, 0}}), compute("b", {{1, 0}}), sum("t", 0, {{2, 0}}), compute("c", {{3, 0}})}, 4);
  EXPECT_EQ(continued(c), (std::vector{0, 1, 1, 1, 1}));
}

TEST(Chains, ASumThatNobodyWaitedForMayStillRun) {
  // The next microbatch's sum comes behind this one's on its queue, which may not be idle by then.
  EXPECT_EQ(continued(rank_class({compute("a"), sum("s", 0, {{0, 0}})}, 1)), (std::vector{0, 1}));
  EXPECT_EQ(continued(rank_class({compute("a"), sum("s", 0, {{0, 0}})}, 4)), (std::vector{0, 0}));
}

TEST(Chains, AWaitForAnotherQueueBeginsANewOne) {
  const auto c = rank_class({message("r", receive, 0), compute("a"), compute("b", {{0, 0}}), compute("c")}, 4);
  EXPECT_EQ(continued(c), (std::vector{0, 0, 0, 1}));
}

TEST(Chains, AWaitForAnEarlierMicrobatchBeginsANewOne) {
  EXPECT_EQ(continued(rank_class({compute("a"), compute("b", {{0, 2}})}, 4)), (std::vector{0, 0}));
}

TEST(Chains, WhatNeedsPartnersStandsAlone) {
  const auto c = rank_class({compute("a"), sum("s", 0, {{0, 0}}), compute("b", {{1, 0}})}, 4);
  EXPECT_EQ(continued(c, {1, 0, 1}), (std::vector{0, 0, 0}));
}

TEST(Chains, OneMicrobatchAChain) {
  RankClass c = rank_class({compute("a"), compute("b")}, 4);
  c.blocks[0].repeat = 3;
  c.blocks[0].steps[1].microbatch = 1;
  EXPECT_EQ(continued(c), (std::vector{0, 0}));
}

TEST(Chains, KnowledgeOfAnEarlierBlockDoesNotOutliveIt) {
  // In the first block the sum is waited for, in the second it is not: there its queue may be busy from the second iteration on.
  RankClass c = rank_class({compute("a"), sum("s", 0, {{0, 0}}), compute("b", {{1, 0}}), compute("d"), sum("t", 0, {{3, 0}})}, 6);
  c.blocks = {{3, {{0, 0}, {1, 0}, {2, 0}}}, {3, {{3, 0}, {4, 0}}}};
  const auto found = simulate::continued_steps(c, std::vector<char>(5, 1));
  EXPECT_EQ(std::vector<int>(found[0].begin(), found[0].end()), (std::vector{0, 1, 1}));
  EXPECT_EQ(std::vector<int>(found[1].begin(), found[1].end()), (std::vector{0, 0}));
}

}  // namespace
}  // namespace flotilla::chains_test
