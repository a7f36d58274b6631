// The order in which devices launch messages and collectives: every valid program has one, and another is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "flotilla/base/text.hpp"
#include "flotilla/program/launch_order.hpp"
#include "program/random_plan.hpp"

namespace flotilla::program::launch_order_test {
namespace {

std::string first(const std::vector<Violation>& violations) { return violations.empty() ? "" : violations.front().what; }

/// Everything between ranks of `devices` is launched but the sums in fp64.
IsLaunched between(const Program& program, std::set<int> devices) {
  return [&program, devices = std::move(devices)](Rank rank, const Instruction& instruction) {
    const auto& binding = program.ranks[rank.index()];
    const auto on_device = [&](Rank member) { return devices.contains(member.value); };
    if (const auto* message = instruction.as<MessageEnd>())
      return on_device(rank) && on_device(binding.peers[static_cast<std::size_t>(message->peer)]);
    const auto* collective = instruction.as<Collective>();
    if (collective == nullptr || collective->kind == CollectiveKind::reduce_scalars) return false;
    const auto& members = program.groups[static_cast<std::size_t>(binding.groups[static_cast<std::size_t>(collective->group)])].members;
    return members.size() > 1 && std::ranges::all_of(members, on_device);
  };
}

std::set<int> all_ranks(const Program& program) {
  std::set<int> all;
  for (int r = 0; r < static_cast<int>(program.ranks.size()); ++r) all.insert(r);
  return all;
}

/// Each launched instruction of each rank once, and the proof holds.
void expect_numbered(const Program& program, const IsLaunched& launched, const std::string& what) {
  auto order = number_launches(program, launched);
  for (int r = 0; r < static_cast<int>(program.ranks.size()); ++r) {
    std::vector<int> expected;
    const auto list = expand(program, Rank{r});
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto& c = program.classes[static_cast<std::size_t>(program.ranks[static_cast<std::size_t>(r)].rank_class)];
      if (launched(Rank{r}, c.instructions[static_cast<std::size_t>(list[i].instruction)])) expected.push_back(static_cast<int>(i));
    }
    auto mine = order[r];
    std::ranges::sort(mine);
    ASSERT_EQ(mine, expected) << what << " rank " << r;
  }
  ASSERT_EQ(first(validate_launches(program, launched, order)), "") << what;
}

TEST(LaunchOrder, EveryPlanHasOneWhoeverHasADevice) {
  std::mt19937 random{20261130};
  for (int trial = 0; trial < 150 && !HasFailure(); ++trial) {
    auto plan = trial % 2 ? tests::any_plan(random) : tests::random_plan(random);
    if (trial % 3 == 0) plan = tests::in_chunks(plan, random);
    plan.shard_optimizer = tests::between(random, 0, 1) == 1;
    Runtime runtime;
    runtime.placement = tests::any_placement(random, plan::rank_count(plan));
    const auto program = lower(plan, runtime);
    const std::string what = text("trial ", trial, ": ", plan::summary(plan));
    expect_numbered(program, between(program, all_ranks(program)), what);
    std::set<int> some;
    for (const int rank : all_ranks(program))
      if (tests::between(random, 0, 3) > 0) some.insert(rank);
    expect_numbered(program, between(program, some), what + " on some devices");
    const auto evaluation = lower_evaluation(plan, runtime, plan.global_batch);
    expect_numbered(evaluation, between(evaluation, some), what + " evaluation");
  }
}

/// Two stages of two replicas of two members: rank 0 shares a group with each of three others.
Program eight_ranks() { return lower(plan::even_plan(model::built_in("gpt2-tiny"), 16, 8, Precision::fp32, 2, 2, 2, 1), Runtime{}); }

const Instruction& instruction_at(const Program& program, int rank, int position) {
  const auto& c = program.classes[static_cast<std::size_t>(program.ranks[static_cast<std::size_t>(rank)].rank_class)];
  return c.instructions[static_cast<std::size_t>(expand(program, Rank{rank})[static_cast<std::size_t>(position)].instruction)];
}

int group_at(const Program& program, int rank, int position) {
  const auto* collective = instruction_at(program, rank, position).as<Collective>();
  return collective == nullptr ? -1 : program.ranks[static_cast<std::size_t>(rank)].groups[static_cast<std::size_t>(collective->group)];
}

/// Two launches of rank 0 that follow one another, of two groups, in the other order: its partners wait for ever.
TEST(LaunchOrder, UnlikeOrdersOfTwoGroupsAreRefused) {
  const auto program = eight_ranks();
  const auto launched = between(program, all_ranks(program));
  const auto order = number_launches(program, launched);
  int swapped = 0, refused = 0;
  for (std::size_t i = 1; i < order.at(0).size(); ++i) {
    const int a = group_at(program, 0, order.at(0)[i - 1]), b = group_at(program, 0, order.at(0)[i]);
    if (a < 0 || b < 0 || a == b) continue;
    auto other = order;
    std::swap(other[0][i - 1], other[0][i]);
    ++swapped;
    const auto violations = validate_launches(program, launched, other);
    if (violations.empty()) continue;
    ++refused;
    EXPECT_EQ(violations.front().rule, Violation::Rule::group_order);
    EXPECT_NE(violations.front().what.find("would never end: ranks launch what they share in unlike orders"), std::string::npos);
  }
  EXPECT_GT(swapped, 0);
  EXPECT_GT(refused, 0);
}

/// The first stage asks for the first gradient before it has sent the first activation.
TEST(LaunchOrder, AMessageBeforeTheOneThatItAnswersIsRefused) {
  const auto program = lower(plan::even_plan(model::built_in("gpt2-tiny"), 16, 8, Precision::fp32, 1, 2, 1, 1), Runtime{});
  const auto launched = between(program, all_ranks(program));
  auto order = number_launches(program, launched);
  const auto gradient = std::ranges::find_if(order[0], [&](int position) { return instruction_at(program, 0, position).receives(); });
  ASSERT_NE(gradient, order[0].end());
  std::rotate(order[0].begin(), gradient, gradient + 1);
  EXPECT_NE(first(validate_launches(program, launched, order)), "");
}

}  // namespace
}  // namespace flotilla::program::launch_order_test
