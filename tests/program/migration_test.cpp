// Moving training state between two plans: every element of every new shard comes from one place that holds it, and no element travels that
// its new holder has already. Checked against shards and boxes, element by element.
#include "flotilla/program/migration.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/kept_state.hpp"
#include "flotilla/program/share_pieces.hpp"
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

/// (rank, tensor, piece or -1) -> the global element at each place.
using PiecePlaces = std::map<std::tuple<Rank, int, int>, std::vector<std::int64_t>>;

PiecePlaces piece_places(const plan::Plan& plan, const Placement& placement) {
  PiecePlaces all;
  for (auto& [key, elements] : places(plan)) all[{key.first, key.second, -1}] = elements;
  Runtime runtime;
  runtime.placement = placement;
  const auto program = lower(plan, runtime);
  for (int r = 0; r < plan::rank_count(plan); ++r) {
    const auto pieces = share_pieces(program, Rank{r});
    for (int p = 0; p < static_cast<int>(pieces.size()); ++p) {
      const auto& piece = pieces[static_cast<std::size_t>(p)];
      auto& elements = all[{Rank{r}, piece.tensor, p}];
      elements.assign(static_cast<std::size_t>(piece.count), -1);
      for (const auto& box : boxes_of(program, Rank{r}, piece))
        for (std::int64_t o = 0; o < box.outer; ++o)
          for (std::int64_t i = 0; i < box.inner; ++i)
            elements.at(static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)) =
                box.global_offset + o * box.global_stride + i;
    }
  }
  return all;
}

/// Tensors of which a rank keeps but a piece, which may be empty.
std::set<std::pair<Rank, int>> in_pieces(const plan::Plan& plan, const Placement& placement) {
  Runtime runtime;
  runtime.placement = placement;
  const auto program = lower(plan, runtime);
  std::set<std::pair<Rank, int>> found;
  for (int r = 0; r < plan::rank_count(plan); ++r)
    for (const auto& part : program.classes.at(static_cast<std::size_t>(program.ranks[Rank{r}.index()].rank_class)).parts)
      for (const auto& slot : part.slots)
        if (!part.shares.empty()) found.insert({Rank{r}, slot.tensor});
  return found;
}

void expect_exact_with_shares(const plan::Plan& from, const plan::Plan& to, const Placement& placement) {
  const auto before = piece_places(from, placement), after = piece_places(to, placement);
  const auto before_in_pieces = in_pieces(from, placement), after_in_pieces = in_pieces(to, placement);
  auto filled = after;
  for (auto& [key, elements] : filled) std::ranges::fill(elements, -1);
  for (const auto& transfer : migrate(from, to, placement).transfers)
    for (const auto& run : transfer.runs) {
      const bool shared_before = before_in_pieces.contains({transfer.from, run.tensor});
      const bool shared_after = after_in_pieces.contains({transfer.to, run.tensor});
      ASSERT_EQ(run.parameters_only, shared_after && run.to_piece < 0) << "moments have no place in the shard of one that keeps a share";
      if (shared_before && run.from_piece < 0) {
        ASSERT_TRUE(run.parameters_only && from.precision == Precision::fp32) << "the shard of one that keeps a share has no state";
      }
      const auto& source = before.at({transfer.from, run.tensor, run.from_piece});
      auto& target = filled.at({transfer.to, run.tensor, run.to_piece});
      for (std::int64_t o = 0; o < run.outer; ++o)
        for (std::int64_t i = 0; i < run.inner; ++i) {
          auto& place = target.at(static_cast<std::size_t>(run.to_offset + o * run.to_stride + i));
          ASSERT_EQ(place, -1) << "filled twice";
          place = source.at(static_cast<std::size_t>(run.from_offset + o * run.from_stride + i));
        }
    }
  EXPECT_TRUE(filled == after) << plan::summary(from) << " -> " << plan::summary(to);
}

TEST(Migration, SharesComeTogetherAndAreDealtOut) {
  std::mt19937 random{64};
  for (int round = 0; round < 12; ++round) {
    auto from = plan::testing::random_plan(random);
    while (from.model.name == "gpt2-mini") from = plan::testing::random_plan(random);
    auto to = sibling(from, random);
    to.precision = from.precision;
    from.shard_optimizer = round % 3 != 0;
    to.shard_optimizer = round % 3 != 1;
    const auto placement = tests::any_placement(random, std::max(plan::rank_count(from), plan::rank_count(to)));
    expect_exact_with_shares(from, to, placement);
  }
}

/// Rank by rank, what is wanted and not kept.
TEST(Migration, MovesWhatIsWantedAndNotKept) {
  std::mt19937 random{65};
  for (int round = 0; round < 24; ++round) {
    auto from = plan::testing::random_plan(random);
    auto to = sibling(from, random);
    from.precision = to.precision;
    from.shard_optimizer = round % 4 > 1;
    to.shard_optimizer = round % 2 == 1;
    if (round % 3 == 0) from = tests::in_chunks(from, random);
    if (round % 5 == 0) to = tests::in_chunks(to, random);
    const int ranks = std::max(plan::rank_count(from), plan::rank_count(to));
    const auto placement = tests::any_placement(random, ranks);
    const auto placed = [&](const plan::Plan& plan) {
      std::vector<Rank> some;
      for (int r = 0; r < plan::rank_count(plan); ++r) some.push_back(Rank{r});
      return placement_of(placement, some);
    };
    const KeptState state{from, to, placed(from), placed(to)};
    std::int64_t numbers = 0;
    for (int r = 0; r < plan::rank_count(to); ++r)
      numbers += state.wanted(Rank{r}) - (r < plan::rank_count(from) ? state.kept(Rank{r}, Rank{r}) : 0);
    EXPECT_EQ(migrate(from, to, placement).moved().count, 4 * numbers) << plan::summary(from) << " -> " << plan::summary(to);
  }
}

TEST(Migration, TheSamePlanMovesNothing) {
  std::mt19937 random{62};
  for (int round = 0; round < 20; ++round) {
    const auto plan = plan::testing::random_plan(random);
    const auto migration = migrate(plan, plan);
    EXPECT_EQ(migration.moved().count, 0);
    for (const auto& transfer : migration.transfers) EXPECT_TRUE(transfer.stays());
    auto shared = plan;
    shared.shard_optimizer = true;
    shared.precision = Precision::fp32;
    EXPECT_EQ(migrate(shared, shared).moved().count, 0);
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
