// Moving training state between two plans: every element of every new shard comes from one place that holds it, and no element travels that
// its new holder has already. Checked against shards and boxes, element by element.
#include "flotilla/program/migration.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "plan/random_plan.hpp"
#include "program/random_plan.hpp"

namespace flotilla::program {
namespace {

/// (rank, tensor) -> the global element at each place of the shard.
using Places = std::map<std::pair<Rank, int>, std::vector<std::int64_t>>;

Places places(const plan::Plan& plan) {
  Places all;
  const auto layout = plan::shard_layout(plan);
  for (std::size_t t = 0; t < layout.tensors.size(); ++t)
    for (const auto& holder : layout.holders[t]) {
      const auto shard = plan::shard(layout.tensors[t], holder.tensor_parallel, holder.tensor_index);
      auto& elements = all[{holder.rank, static_cast<int>(t)}];
      elements.assign(static_cast<std::size_t>(shard.elements()), -1);
      for (const auto& box : plan::boxes(layout.tensors[t], shard))
        for (std::int64_t o = 0; o < box.outer; ++o)
          for (std::int64_t i = 0; i < box.inner; ++i)
            elements[static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)] = box.global_offset + o * box.global_stride + i;
    }
  return all;
}

/// Elements that new holders do not have yet.
std::int64_t least(const Places& before, const Places& after) {
  std::int64_t missing = 0;
  for (const auto& [key, wanted] : after) {
    const auto old = before.find(key);
    std::vector<std::int64_t> had = old == before.end() ? std::vector<std::int64_t>{} : old->second;
    std::ranges::sort(had);
    for (const auto element : wanted) missing += !std::ranges::binary_search(had, element);
  }
  return missing;
}

void expect_exact(const plan::Plan& from, const plan::Plan& to) {
  const auto before = places(from), after = places(to);
  auto filled = after;
  for (auto& [key, elements] : filled) std::ranges::fill(elements, -1);
  const auto migration = migrate(from, to);
  std::set<std::pair<Rank, Rank>> pairs;
  for (const auto& transfer : migration.transfers) {
    ASSERT_TRUE(pairs.insert({transfer.from, transfer.to}).second) << "two transfers between the same ranks";
    ASSERT_GT(transfer.elements(), 0);
    for (const auto& run : transfer.runs)
      for (std::int64_t o = 0; o < run.outer; ++o)
        for (std::int64_t i = 0; i < run.inner; ++i) {
          const auto& source = before.at({transfer.from, run.tensor});
          auto& place = filled.at({transfer.to, run.tensor}).at(static_cast<std::size_t>(run.to_offset + o * run.to_stride + i));
          ASSERT_EQ(place, -1) << "filled twice";
          place = source.at(static_cast<std::size_t>(run.from_offset + o * run.from_stride + i));
        }
  }
  EXPECT_EQ(filled, after) << plan::summary(from) << " -> " << plan::summary(to);
  EXPECT_EQ(migration.moved(), least(before, after) * kept_per_parameter) << plan::summary(from) << " -> " << plan::summary(to);
}

/// Another random plan for the same model and job.
plan::Plan sibling(const plan::Plan& of, std::mt19937& random) {
  for (;;) {
    auto plan = plan::testing::random_plan(random);
    if (plan.model == of.model) return plan;
  }
}

TEST(Migration, RandomPlansMoveTheLeastAndFillEverythingOnce) {
  std::mt19937 random{61};
  for (int round = 0; round < 12; ++round) {
    auto from = plan::testing::random_plan(random);
    while (from.model.name == "gpt2-mini") from = plan::testing::random_plan(random);  // its elements are too many to look at one by one
    expect_exact(from, sibling(from, random));
    if (round % 3 == 0) expect_exact(from, tests::in_chunks(sibling(from, random), random));
    if (round % 3 == 1) expect_exact(tests::in_chunks(from, random), sibling(from, random));
  }
}

TEST(Migration, TheSamePlanMovesNothing) {
  std::mt19937 random{62};
  for (int round = 0; round < 20; ++round) {
    const auto plan = plan::testing::random_plan(random);
    const auto migration = migrate(plan, plan);
    EXPECT_EQ(migration.moved().count, 0);
    for (const auto& transfer : migration.transfers) EXPECT_TRUE(transfer.stays());
  }
}

TEST(Migration, SourcesTakeTurnsAndNearOnesAreAskedFirst) {
  const auto model = model::built_in("gpt2-tiny");
  const auto from = plan::even_plan(model, 16, 8, Precision::fp32, 4, 1, 1, 1);
  auto to = plan::even_plan(model, 16, 8, Precision::fp32, 8, 1, 1, 1);
  std::map<int, std::int64_t> sent;
  for (const auto& t : migrate(from, to).transfers)
    if (!t.stays()) sent[t.from.value] += t.elements();
  ASSERT_EQ(sent.size(), 4u);
  auto zoned = from;
  zoned.stages[0].replicas[3].zone = "far";
  for (int r = 4; r < 8; ++r) to.stages[0].replicas[static_cast<std::size_t>(r)].zone = "far";
  for (const auto& t : migrate(zoned, to).transfers) EXPECT_TRUE(t.stays() || t.from == Rank{3}) << t.from;
}

// Of a set of messages any one waits only for those before it in the list: so there is always one that both ends have started.
TEST(Migration, EveryRankSendsToOneAndReceivesFromOneInARound) {
  std::mt19937 random{63};
  for (int round = 0; round < 20; ++round) {
    const auto from = plan::testing::random_plan(random);
    const auto migration = migrate(from, sibling(from, random));
    int ranks = 1;
    for (const auto& t : migration.transfers) ranks = std::max({ranks, t.from.value + 1, t.to.value + 1});
    int last = 0;
    for (const auto& t : migration.transfers) {
      const int distance = (t.to.value - t.from.value + ranks) % ranks;
      EXPECT_GE(distance, last);
      last = distance;
    }
  }
}

TEST(Migration, RefusesAnotherModel) {
  const auto tiny = plan::even_plan(model::built_in("gpt2-tiny"), 16, 4, Precision::fp32, 1, 1, 1, 1);
  const auto opt = plan::even_plan(model::built_in("opt-tiny"), 16, 4, Precision::fp32, 1, 1, 1, 1);
  EXPECT_THROW(migrate(tiny, opt), Error);
}

}  // namespace
}  // namespace flotilla::program
