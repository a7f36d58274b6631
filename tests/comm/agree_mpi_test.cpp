#include "flotilla/comm/agree.hpp"

#include <new>

#include "slow_ranks.hpp"
#include "world_fixture.hpp"

namespace flotilla::comm {
namespace {

constexpr Seconds impatience{0.3};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class AgreeTest : public WorldTest {
 protected:
  struct Thrown {
    bool any = false, agreed = false;
    ErrorKind kind{};
    std::string message;
  };
  template <class Call>
  Thrown thrown_by(const Call& call) {
    try {
      call();
      return {};
    } catch (const AgreedError& error) {
      return {true, true, error.kind(), error.what()};
    } catch (const Error& error) {
      return {true, false, error.kind(), error.what()};
    }
  }
  Thrown agreement(const PhaseOutcome& mine, Seconds deadline = patience) {
    return thrown_by([&] { agree(world, mine, deadline); });
  }
  /// One that `silent` (not rank 0) comes to when the others have given it up. Rank 0 gives up soon, but not before all others are there.
  Thrown agreement_without(int silent, const PhaseOutcome& mine = {}) {
    if (me == silent) meet();
    await_words_of_all_but(world, silent);
    const Thrown thrown = agreement(mine, me == 0 ? impatience : patience);
    if (me != silent) meet();
    return thrown;
  }
  /// Every rank threw, and the same.
  void expect_same_everywhere(const Thrown& thrown) {
    ASSERT_TRUE(thrown.any);
    for (const std::string& other : mpi::all_gather_strings(world.messages(), thrown.message, patience)) EXPECT_EQ(other, thrown.message);
    for (const ErrorKind other : mpi::all_gather(world.messages(), thrown.kind, patience)) EXPECT_EQ(other, thrown.kind);
  }
};

TEST_F(AgreeTest, AllWellManyTimes) {
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(agreement({}).any);
}

TEST_F(AgreeTest, OneFailureIsEverybodysAndNamed) {
  for (int failing = 0; failing < size; ++failing) {
    const auto thrown = agreement(me == failing ? PhaseOutcome{false, ErrorKind::bad_input, "job.toml:3: no such model"} : PhaseOutcome{});
    expect_same_everywhere(thrown);
    EXPECT_TRUE(thrown.agreed);
    EXPECT_EQ(thrown.kind, ErrorKind::bad_input);
    EXPECT_TRUE(contains(thrown.message, "job.toml:3: no such model")) << thrown.message;
    if (size > 1) {
      EXPECT_TRUE(contains(thrown.message, world.name(Rank{failing}))) << thrown.message;
    }
  }
}

TEST_F(AgreeTest, SameFailureEverywhereIsSaidOnce) {
  const auto thrown = agreement({false, ErrorKind::no_plan, "no plan fits 4 GiB"});
  expect_same_everywhere(thrown);
  EXPECT_EQ(thrown.message, "no plan fits 4 GiB");
}

TEST_F(AgreeTest, WorstKindWinsAndTheOthersAreNamed) {
  if (size < 3) return;  // takes three different outcomes
  PhaseOutcome mine;
  if (me == 0) mine = {false, ErrorKind::communication, "rank 2 did not answer"};
  if (me == 1) mine = {false, ErrorKind::unavailable, "disk full"};
  if (me == 2) mine = {false, ErrorKind::communication, "peer lost"};
  const auto thrown = agreement(mine);
  expect_same_everywhere(thrown);
  EXPECT_EQ(thrown.kind, ErrorKind::unavailable);
  EXPECT_EQ(thrown.message.rfind(world.name(Rank{1}) + ": disk full", 0), 0u) << thrown.message;
  EXPECT_TRUE(contains(thrown.message, world.name(Rank{0}) + ", " + world.name(Rank{2}))) << thrown.message;
}

TEST_F(AgreeTest, RankOfKindsIsATotalOrder) {
  const ErrorKind order[] = {ErrorKind::internal,    ErrorKind::usage,     ErrorKind::bad_input, ErrorKind::no_input,
                             ErrorKind::unavailable, ErrorKind::temporary, ErrorKind::no_plan,   ErrorKind::communication};
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b) EXPECT_EQ(outranks(order[a], order[b]), a < b);
}

TEST_F(AgreeTest, LongMessagesAreCutNotLost) {
  const auto thrown = agreement({false, ErrorKind::internal, "begins " + std::string(100'000, 'x')});
  expect_same_everywhere(thrown);
  EXPECT_EQ(thrown.message.rfind("begins xxx", 0), 0u) << thrown.message;
  const auto other = agreement(me == 0 ? PhaseOutcome{false, ErrorKind::internal, std::string(100'000, 'y')} : PhaseOutcome{});
  expect_same_everywhere(other);
}

TEST_F(AgreeTest, SilentRankIsNamedAndLearnsOfItLater) {
  if (size == 1) return;  // nobody to miss
  const auto thrown = agreement_without(size - 1);
  expect_same_everywhere(thrown);
  EXPECT_FALSE(thrown.agreed) << "a job with a silent rank cannot end in good order";
  EXPECT_EQ(thrown.kind, ErrorKind::communication);
  EXPECT_TRUE(contains(thrown.message, world.name(Rank{size - 1}))) << thrown.message;
  EXPECT_FALSE(contains(thrown.message, world.name(Rank{0}))) << thrown.message;
}

TEST_F(AgreeTest, FailureAndSilenceTogetherAreBothNamed) {
  if (size < 3) return;  // takes a failing, a silent and rank 0
  const auto thrown = agreement_without(2, me == 1 ? PhaseOutcome{false, ErrorKind::unavailable, "disk full"} : PhaseOutcome{});
  expect_same_everywhere(thrown);
  EXPECT_EQ(thrown.kind, ErrorKind::unavailable);
  EXPECT_TRUE(contains(thrown.message, world.name(Rank{1}) + ": disk full")) << thrown.message;
  EXPECT_TRUE(contains(thrown.message, "no answer within 300 ms from " + world.name(Rank{2}))) << thrown.message;
}

TEST_F(AgreeTest, SilentRankZeroIsNoticedByTheOthers) {
  if (size == 1) return;  // nobody to notice
  if (me == 0) meet();
  const auto thrown = agreement({}, impatience);
  if (me == 0) return;
  meet();
  ASSERT_TRUE(thrown.any);
  EXPECT_FALSE(thrown.agreed);
  EXPECT_TRUE(contains(thrown.message, world.name(Rank{0}))) << thrown.message;
}

TEST_F(AgreeTest, AgreeOnReturnsTheValueAndTranslatesExceptions) {
  EXPECT_EQ(agree_on(
                world, "counting", [&] { return me + 10; }, patience),
            me + 10);
  agree_on(
      world, "nothing", [] {}, patience);
  const auto memory = thrown_by([&] {
    agree_on(
        world, "making buffers", [] { throw std::bad_alloc{}; }, patience);
  });
  EXPECT_EQ(memory.kind, ErrorKind::unavailable);
  EXPECT_EQ(memory.message, "making buffers: out of memory");
  const auto foreign = thrown_by([&] {
    agree_on(
        world, "parsing", [] { throw std::runtime_error{"odd"}; }, patience);
  });
  EXPECT_EQ(foreign.kind, ErrorKind::internal);
  EXPECT_EQ(foreign.message, "parsing: odd");
}

TEST_F(AgreeTest, SameTextsPassWhateverTheirLength) {
  require_same(world, "the job", "", patience);
  require_same(world, "the job", "gpt2 batch 8", patience);
  require_same(world, "the job", std::string(1'000'000, 'j'), patience);
}

TEST_F(AgreeTest, DifferentTextNamesTheOddRankAndThePlace) {
  if (size < 3) return;  // takes a majority
  for (int odd = 0; odd < size; ++odd) {
    const std::string job = me == odd ? "model gpt2\nbatch 16\nseed 1" : "model gpt2\nbatch 8\nseed 1";
    const auto thrown = thrown_by([&] { require_same(world, "the job", job, patience); });
    expect_same_everywhere(thrown);
    EXPECT_TRUE(thrown.agreed);
    EXPECT_EQ(thrown.kind, ErrorKind::bad_input);
    EXPECT_EQ(
        thrown.message.rfind("the ranks do not agree on the job: " + world.name(Rank{odd}) + " has \"batch 16\" instead of \"batch 8\"", 0),
        0u)
        << thrown.message;
  }
}

TEST_F(AgreeTest, DifferenceFarInALongTextIsFound) {
  if (size == 1) return;  // alone one agrees
  std::string job(500'000, 'j');
  if (me == 1) job.back() = 'k';
  const auto thrown = thrown_by([&] { require_same(world, "the job", job, patience); });
  expect_same_everywhere(thrown);
  EXPECT_TRUE(contains(thrown.message, world.name(Rank{1}))) << thrown.message;
}

TEST_F(AgreeTest, BeginningOfTheOthersTextIsADifference) {
  if (size == 1) return;  // alone one agrees
  EXPECT_TRUE(thrown_by([&] { require_same(world, "the job", me == 1 ? "abc" : "abcd", patience); }).any);
}

TEST_F(AgreeTest, RanksInDifferentPhasesAreOurBug) {
  if (size == 1) return;  // alone there is one phase
  const auto thrown = me == 1 ? thrown_by([&] { require_same(world, "the job", "x", patience); }) : agreement({});
  expect_same_everywhere(thrown);
  EXPECT_EQ(thrown.kind, ErrorKind::internal);
  EXPECT_TRUE(contains(thrown.message, world.name(Rank{1}))) << thrown.message;
}

TEST_F(AgreeTest, WorldKnowsHostsAndNeighbours) {
  EXPECT_FALSE(world.host(world.rank()).empty());
  EXPECT_EQ(world.neighbours().size(), static_cast<std::size_t>(size)) << "all ranks of this test run on one host";
  std::vector<Rank> many;
  for (int r = 0; r < size; ++r) many.push_back(Rank{r});
  EXPECT_EQ(world.names(many, 100).find(" more"), std::string::npos);
  if (size > 2) {
    EXPECT_TRUE(contains(world.names(many, 2), text(" and ", size - 2, " more")));
  }
  EXPECT_GE(world.largest_tag(), 32767);
}

}  // namespace
}  // namespace flotilla::comm
