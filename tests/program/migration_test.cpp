// Moving training state between two plans: every number of every new state comes from one place that holds it, and nothing travels that its
// new holder has already. Checked against shards, boxes and pieces of shares, element by element.
#include "flotilla/program/migration.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/kept_state.hpp"
#include "flotilla/program/optimizer_shards.hpp"
#include "plan/random_plan.hpp"
#include "program/random_plan.hpp"

namespace flotilla::program::migration_test {
namespace {

/// (rank, tensor, piece or -1) -> the global element at each place.
using Key = std::tuple<Rank, int, int>;
using Places = std::map<Key, std::vector<std::int64_t>>;

void add_boxes(const std::vector<plan::Box>& boxes, std::int64_t count, std::vector<std::int64_t>& elements) {
  elements.assign(static_cast<std::size_t>(count), -1);
  for (const auto& box : boxes)
    for (std::int64_t o = 0; o < box.outer; ++o)
      for (std::int64_t i = 0; i < box.inner; ++i)
        elements.at(static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)) = box.global_offset + o * box.global_stride + i;
}

/// Kinds of numbers, each a bit.
constexpr unsigned parameter = 1, moments = 2, weight = 4;

/// One plan read plainly: what stands where on each rank.
struct Reading {
  Reading(const plan::Plan& plan, const RankLocations& placement) : half{plan.precision != Precision::fp32} {
    const auto layout = plan::shard_layout(plan);
    for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
      sizes.push_back(layout.tensors[t].elements());
      for (const auto& holder : layout.holders[t]) {
        const auto shard = plan::shard(layout.tensors[t], holder.tensor_parallel, holder.tensor_index);
        add_boxes(plan::boxes(layout.tensors[t], shard), shard.elements(), places[{holder.rank, static_cast<int>(t), -1}]);
      }
    }
    if (plan.shard_optimizer) read_shares(plan, placement);
    for (const auto& [key, elements] : places) {
      auto& here = numbers[{std::get<0>(key), std::get<1>(key)}];
      here.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(std::get<1>(key))]), 0);
      for (const auto element : elements) here[static_cast<std::size_t>(element)] |= kinds(key);
    }
  }

  /// Of what stands at a place of that rank, tensor and piece.
  unsigned kinds(const Key& key) const {
    const auto [rank, tensor, piece] = key;
    if (piece >= 0) return parameter | moments;
    if (in_pieces.contains({rank, tensor})) return half ? weight : parameter;
    return parameter | moments | (half ? weight : 0);
  }

  bool half;
  std::vector<std::int64_t> sizes;  ///< elements of each tensor
  Places places;
  std::set<std::pair<Rank, int>> in_pieces;                            ///< tensors of which a rank keeps but a piece, which may be empty
  std::set<Key> in_place;                                              ///< pieces whose parameters are those of the shard
  std::map<std::pair<Rank, int>, std::vector<unsigned char>> numbers;  ///< (rank, tensor): kinds of each element

 private:
  void read_shares(const plan::Plan& plan, const RankLocations& placement) {
    Runtime runtime;
    runtime.placement = placement;
    const auto program = lower(plan, runtime);
    for (int r = 0; r < plan::rank_count(plan); ++r) {
      const auto& parts = program.classes.at(static_cast<std::size_t>(program.ranks[Rank{r}.index()].rank_class)).parts;
      for (const auto& part : parts)
        for (const auto& slot : part.slots)
          if (!part.shards.empty()) in_pieces.insert({Rank{r}, slot.tensor});
      const auto pieces = shard_pieces(program, Rank{r});
      for (int p = 0; p < static_cast<int>(pieces.size()); ++p) {
        const auto& piece = pieces[static_cast<std::size_t>(p)];
        const auto& part = parts[static_cast<std::size_t>(piece.part)];
        add_boxes(boxes_of(program, Rank{r}, piece), piece.count, places[{Rank{r}, piece.tensor, p}]);
        if (part.shards[static_cast<std::size_t>(piece.shard)].parameters == part.parameters) in_place.insert({Rank{r}, piece.tensor, p});
      }
    }
  }
};

/// Bytes that ranks need under the new plan and did not hold under the old one. A copy in half precision is made of a parameter that is
/// there.
std::int64_t lacking(const Reading& before, const Reading& after) {
  std::int64_t bytes = 0;
  for (const auto& [key, needed] : after.numbers) {
    const auto held = before.numbers.find(key);
    std::array<std::int64_t, 8> count{};  // of elements, by the kinds that are lacking
    for (std::size_t e = 0; e < needed.size(); ++e) {
      const unsigned lacks = needed[e] & ~(held == before.numbers.end() ? 0u : held->second[e]);
      ++count[needed[e] & parameter ? lacks & ~weight : lacks];
    }
    for (unsigned kinds = 0; kinds < count.size(); ++kinds)
      bytes += count[kinds] * ((kinds & parameter ? 4 : 0) + (kinds & moments ? 8 : 0) + (kinds & weight ? 2 : 0));
  }
  return bytes;
}

unsigned kinds_of(Carried carried) {
  switch (carried) {
    case Carried::state: return parameter | moments;
    case Carried::parameters: return parameter;
    case Carried::moments: return moments;
    case Carried::weights: return weight;
  }
  return 0;
}

/// Does what a migration lists, with the numbers of elements in place of their values.
class Rehearsal {
 public:
  Rehearsal(const Reading& before, const Reading& after) : before_{before}, after_{after} {
    for (const auto& [key, elements] : after.places)
      for (const unsigned kind : {parameter, moments})
        if (has_room(key, kind)) filled_[kind][key].assign(elements.size(), -1);
  }

  void move(const StateTransfer& transfer) {
    for (const auto& run : transfer.runs)
      for_each_kind(run, [&](unsigned kind) {
        const Key from{transfer.from, run.tensor, run.from_piece}, to{transfer.to, run.tensor, run.to_piece};
        ASSERT_TRUE(before_.kinds(from) & kind) << "the old rank has no such numbers there";
        const auto& source = before_.places.at(from);
        auto& target = filled_.at(kind == weight ? parameter : kind).at(to);
        if (!transfer.stays()) receive(run, kind, {transfer.to, run.tensor}, source);
        fill(run, source, target);
      });
  }

  void copy(const StateTransfer& transfer) {
    ASSERT_TRUE(transfer.stays());
    for (const auto& run : transfer.runs)
      for_each_kind(run, [&](unsigned kind) {
        ASSERT_NE(kind, weight);
        auto& rooms = filled_.at(kind);
        fill(run, rooms.at({transfer.from, run.tensor, run.from_piece}), rooms.at({transfer.to, run.tensor, run.to_piece}));
      });
  }

  bool done() const {
    for (const auto& [kind, rooms] : filled_)
      for (const auto& [key, elements] : rooms)
        if (elements != after_.places.at(key)) return false;
    return true;
  }

 private:
  /// Parameters are filled in the shard and, where they stand there too, in the share; moments where they are kept.
  bool has_room(const Key& key, unsigned kind) const {
    return kind == parameter ? !after_.in_place.contains(key) : (after_.kinds(key) & moments) != 0;
  }
  template <class Each>
  static void for_each_kind(const ElementRun& run, const Each& each) {
    for (const unsigned kind : {parameter, moments, weight})
      if (kinds_of(run.carried) & kind) each(kind);
  }
  /// Calls each(place in the source, place in the target).
  template <class Each>
  static void for_each_element(const ElementRun& run, std::size_t source, std::size_t target, const Each& each) {
    ASSERT_TRUE(run.from_offset >= 0 && run.to_offset >= 0 && run.outer > 0 && run.inner > 0);
    ASSERT_LE(run.from_offset + (run.outer - 1) * run.from_stride + run.inner, static_cast<std::int64_t>(source));
    ASSERT_LE(run.to_offset + (run.outer - 1) * run.to_stride + run.inner, static_cast<std::int64_t>(target));
    for (std::int64_t o = 0; o < run.outer; ++o)
      for (std::int64_t i = 0; i < run.inner; ++i)
        each(static_cast<std::size_t>(run.from_offset + o * run.from_stride + i),
             static_cast<std::size_t>(run.to_offset + o * run.to_stride + i));
  }
  static void fill(const ElementRun& run, const std::vector<std::int64_t>& source, std::vector<std::int64_t>& target) {
    int twice = 0, from_nothing = 0;
    for_each_element(run, source.size(), target.size(), [&](std::size_t from, std::size_t to) {
      twice += target[to] >= 0;
      from_nothing += source[from] < 0;
      target[to] = source[from];
    });
    EXPECT_EQ(twice, 0) << "places filled again";
    EXPECT_EQ(from_nothing, 0) << "from places that nothing has filled";
  }
  void receive(const ElementRun& run, unsigned kind, std::pair<Rank, int> where, const std::vector<std::int64_t>& source) {
    const auto old = before_.numbers.find(where);
    auto& has = has_.try_emplace(where, old == before_.numbers.end() ? std::vector<unsigned char>{} : old->second).first->second;
    has.resize(after_.numbers.at(where).size(), 0);
    int again = 0;
    for_each_element(run, source.size(), std::numeric_limits<std::int64_t>::max(), [&](std::size_t from, std::size_t) {
      auto& kinds = has[static_cast<std::size_t>(source[from])];
      again += (kinds & kind) != 0;
      kinds |= static_cast<unsigned char>(kind);
    });
    EXPECT_EQ(again, 0) << "numbers received that are there";
  }

  const Reading &before_, &after_;
  std::map<unsigned, Places> filled_;
  std::map<std::pair<Rank, int>, std::vector<unsigned char>> has_;
};

std::int64_t expect_exact(const plan::Plan& from, const plan::Plan& to, const RankLocations& placement = {}) {
  const std::string what = to_string(from.precision) + ": " + plan::summary(from) + " -> " + plan::summary(to);
  const Reading before{from, placement}, after{to, placement};
  const auto migration = migrate(from, to, placement);
  Rehearsal rehearsal{before, after};
  std::set<std::pair<Rank, Rank>> pairs;
  for (const auto& transfer : migration.transfers) {
    EXPECT_TRUE(pairs.insert({transfer.from, transfer.to}).second) << "two transfers between the same ranks";
    EXPECT_GT(transfer.elements(), 0);
    EXPECT_TRUE(std::ranges::is_partitioned(transfer.runs, [](const ElementRun& run) { return run.carried != Carried::weights; }));
    rehearsal.move(transfer);
  }
  for (const auto& transfer : migration.within) rehearsal.copy(transfer);
  EXPECT_TRUE(rehearsal.done()) << what;
  EXPECT_EQ(migration.moved().count, lacking(before, after)) << what;
  return migration.moved().count;
}

/// Another random plan for the same model and job.
plan::Plan sibling(const plan::Plan& of, std::mt19937& random) {
  for (;;) {
    auto plan = plan::testing::random_plan(random);
    plan.precision = of.precision;
    if (plan.model.name != of.model.name) continue;
    plan.model = of.model;
    return plan;
  }
}

plan::Plan small_plan(std::mt19937& random) {
  for (;;) {
    auto plan = plan::testing::random_plan(random);
    if (plan.model.name == "gpt2-mini") continue;  // its elements are too many to look at one by one
    plan.model.vocabulary = 53;
    return plan;
  }
}

TEST(Migration, RandomPlansMoveTheLeastAndFillEverythingOnce) {
  std::mt19937 random{61};
  for (int round = 0; round < 12; ++round) {
    const auto from = small_plan(random);
    expect_exact(from, sibling(from, random));
    if (round % 3 == 0) expect_exact(from, tests::in_chunks(sibling(from, random), random));
    if (round % 3 == 1) expect_exact(tests::in_chunks(from, random), sibling(from, random));
  }
}

TEST(Migration, SharesComeTogetherAndAreDealtOut) {
  std::mt19937 random{64};
  int something = 0, less = 0;
  for (int round = 0; round < 30; ++round) {
    auto from = small_plan(random), to = sibling(from, random);
    from.shard_optimizer = round % 3 != 0;
    to.shard_optimizer = round % 3 != 1;
    const auto moved = expect_exact(from, to, tests::any_placement(random, std::max(plan::rank_count(from), plan::rank_count(to))));
    something += moved > 0;
    less += moved < kept_per_parameter.count * model::parameter_count(to.model);
  }
  EXPECT_GT(something, 20);
  EXPECT_GT(less, 3);
}

/// Rank by rank, what is wanted and not kept.
TEST(Migration, MovesWhatIsWantedAndNotKept) {
  std::mt19937 random{65};
  for (int round = 0; round < 24; ++round) {
    auto from = plan::testing::random_plan(random);
    auto to = sibling(from, random);
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
    Bytes lacking{};
    for (int r = 0; r < plan::rank_count(to); ++r)
      lacking += state.wanted(Rank{r}) - (r < plan::rank_count(from) ? state.kept(Rank{r}, Rank{r}) : Bytes{});
    EXPECT_EQ(migrate(from, to, placement).moved(), lacking) << plan::summary(from) << " -> " << plan::summary(to);
  }
}

TEST(Migration, TheSamePlanMovesNothing) {
  std::mt19937 random{62};
  for (int round = 0; round < 20; ++round) {
    auto plan = plan::testing::random_plan(random);
    plan.shard_optimizer = round % 2 == 1;
    const auto migration = migrate(plan, plan);
    EXPECT_EQ(migration.moved().count, 0);
    for (const auto& transfer : migration.transfers) EXPECT_TRUE(transfer.stays());
  }
}

/// Bytes that each rank sends.
std::map<int, std::int64_t> sent(const Migration& migration) {
  std::map<int, std::int64_t> bytes;
  for (const auto& t : migration.transfers)
    if (!t.stays()) bytes[t.from.value] += t.size().count;
  return bytes;
}

TEST(Migration, NearOnesAreAskedFirst) {
  const auto model = model::built_in("gpt2-tiny");
  auto from = plan::even_plan(model, 16, 8, Precision::fp32, 4, 1, 1, 1);
  auto to = plan::even_plan(model, 16, 8, Precision::fp32, 8, 1, 1, 1);
  for (const bool shares : {false, true}) {
    from.shard_optimizer = shares;
    auto zoned = from, there = to;
    zoned.stages[0].replicas[3].zone = "far";
    for (std::size_t r = 4; r < 8; ++r) there.stages[0].replicas[r].zone = "far";
    for (const auto& t : migrate(zoned, there).transfers)
      for (const auto& run : t.runs)
        EXPECT_TRUE(t.stays() || t.from == Rank{3} || t.to < Rank{4} || (shares && run.carried == Carried::moments)) << t.from << t.to;
    const RankLocations nodes{{0, 1, 2, 3, 0, 1, 2, 3}, std::vector<int>(8, 0)};
    for (const auto& t : migrate(from, to, nodes).transfers)
      for (const auto& run : t.runs)
        EXPECT_TRUE(t.stays() || t.to.value == t.from.value + 4 || (shares && run.carried == Carried::moments)) << t.from << t.to;
  }
}

/// Nobody has more than its part and a tensor to send.
TEST(Migration, SourcesTakeTheLoadTogether) {
  const auto model = model::built_in("gpt2-tiny");
  const auto from = plan::even_plan(model, 16, 8, Precision::fp32, 4, 1, 1, 1),
             to = plan::even_plan(model, 16, 8, Precision::fp32, 8, 1, 1, 1);
  std::int64_t largest = 0;
  for (const auto& tensor : model::tensors(model)) largest = std::max(largest, tensor.elements() * kept_per_parameter.count);
  const auto migration = migrate(from, to);
  const auto all = sent(migration);
  ASSERT_EQ(all.size(), 4u);
  for (const auto& [rank, bytes] : all) EXPECT_LE(bytes, migration.moved().count / 4 + largest) << rank;
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

TEST(Migration, RefusesAnotherModelOrPrecision) {
  const auto tiny = plan::even_plan(model::built_in("gpt2-tiny"), 16, 4, Precision::fp32, 1, 1, 1, 1);
  const auto opt = plan::even_plan(model::built_in("opt-tiny"), 16, 4, Precision::fp32, 1, 1, 1, 1);
  EXPECT_THROW(migrate(tiny, opt), Error);
  auto half = tiny;
  half.precision = Precision::bf16;
  EXPECT_THROW(migrate(tiny, half), Error);
}

}  // namespace
}  // namespace flotilla::program::migration_test
