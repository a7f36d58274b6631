#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "machine/interpret.hpp"
#include "small_program.hpp"
#include "support/refusal.hpp"

// Small programs written by hand: each test states one rule of program.hpp and the exact times that follow from it.
namespace flotilla::machine_test {
namespace {

using fixture::add_rank;
using fixture::blocking;
using fixture::compute;
using fixture::FakeCost;
using fixture::message;
using fixture::rank_class;
using fixture::receive;
using fixture::seconds_by_name;
using fixture::send;
using fixture::span_of;
using fixture::sum;
using program::Instruction;
using program::Program;
using program::Queue;
using program::RankClass;
using simulate::Forecast;
using simulate::Span;

std::string fault_of(const Program& p, const FakeCost& cost) {
  return tests::refusal(ErrorKind::internal, [&] { interpret(p, cost); });
}

TEST(Machine, OneDeviceIsTheSumOfItsInstructions) {
  Program p;
  add_rank(p, rank_class({compute("1"), compute("0.5"), compute("0.25")}, 3));
  const Forecast f = interpret(p, seconds_by_name(), {true, {}});
  EXPECT_EQ(f.iteration.value, 3 * 1.75);
  EXPECT_EQ(span_of(f, 0, "0.5", 2).start.value, 2 * 1.75 + 1);
  EXPECT_EQ(f.breakdown[simulate::Activity::forward].value, 3 * 1.75);
  EXPECT_EQ(f.breakdown[simulate::Activity::bubble].value, 0);
  EXPECT_NEAR(f.relative_error, 0.1, 1e-12);
}

TEST(Machine, TheShortLastMicrobatchCostsItsOwnSize) {
  Program p;
  RankClass c = rank_class({compute("x")}, 3);
  c.shape.sequences = 4;
  c.last_sequences = 1;
  add_rank(p, c);
  FakeCost cost;
  cost.compute_seconds = [](const Instruction&, int sequences) { return 1.0 * sequences; };
  EXPECT_EQ(interpret(p, cost).iteration.value, 4 + 4 + 1);
}

TEST(Machine, MessageMovesWhenBothEndsHaveStarted) {
  Program p;
  add_rank(p, rank_class({compute("1"), message("s", send, 0, {{0, 0}})}), {1});
  add_rank(p, rank_class({compute("3"), message("r", receive, 0, {{0, 0}}), compute("2", {{1, 0}})}), {0});
  const Forecast f = interpret(p, seconds_by_name(), {true, {}});
  EXPECT_EQ(span_of(f, 0, "s").start.value, 3);
  EXPECT_EQ(span_of(f, 1, "r").end.value, 3.25);
  EXPECT_EQ(f.iteration.value, 5.25);
  EXPECT_EQ(f.kinds[1].breakdown[simulate::Activity::activation_transfer].value, 0.25);
  EXPECT_EQ(f.kinds[0].breakdown[simulate::Activity::bubble].value, 4.25);
}

TEST(Machine, SendNeverBlocksItsQueueAndReceiveIsPostedEarly) {
  Program p;  // the receive waits for nothing: the sender's data arrives while the receiver computes
  add_rank(p, rank_class({compute("1"), message("s", send, 0, {{0, 0}}), compute("4")}), {1});
  add_rank(p, rank_class({message("r", receive, 0), compute("3"), compute("2", {{0, 0}})}), {0});
  const Forecast f = interpret(p, seconds_by_name(), {true, {}});
  EXPECT_EQ(span_of(f, 1, "r").end.value, 1.25);
  EXPECT_EQ(span_of(f, 0, "4").start.value, 1);
  EXPECT_EQ(f.iteration.value, 5);
}

/// Rank 0 computes on while its message moves; rank 1 waits for it, or computes for `busy` seconds meanwhile.
Program message_beside_computing(const char* busy) {
  Program p;
  add_rank(p, rank_class({compute("1"), message("s", send, 0, {{0, 0}}), compute("4")}), {1});
  auto receiver = rank_class({message("r", receive, 0), compute("2", {{0, 0}})});
  if (busy != nullptr) receiver = rank_class({message("r", receive, 0), compute(busy), compute("2", {{0, 0}})});
  add_rank(p, receiver, {0});
  return p;
}

TEST(Interference, AMessageIsLaterByTheEndsThatCompute) {
  FakeCost cost = seconds_by_name();
  cost.taken = {0, {0.5}};
  EXPECT_EQ(span_of(interpret(message_beside_computing(nullptr), cost, {true, {}}), 1, "r").end.value, 1.25 + 0.25) << "the sender";
  EXPECT_EQ(span_of(interpret(message_beside_computing("3"), cost, {true, {}}), 1, "r").end.value, 1.25 + 0.5) << "both";
}

TEST(Interference, ComputingLosesItsShareWhileAMessageMoves) {
  FakeCost cost = seconds_by_name();
  cost.taken = {0.25, {}};
  EXPECT_EQ(interpret(message_beside_computing("3"), cost).iteration.value, 5 + 0.25 * 0.25);
  cost.taken = {0.25, {0.5}};  // it moves for longer
  EXPECT_EQ(interpret(message_beside_computing("3"), cost).iteration.value, 5 + 0.25 * (0.25 + 0.25));
}

TEST(Interference, AnAllReduceIsLaterInBothPhasesOnTheRankThatComputes) {
  Program p;
  p.groups = {{program::Group::Kind::data, {Rank{0}, Rank{1}}}};
  add_rank(p, rank_class({compute("1"), sum("a", 0, {{0, 0}}), compute("4")}), {}, {0});
  add_rank(p, rank_class({compute("1"), sum("a", 0, {{0, 0}}), compute("3", {{1, 0}})}), {}, {0});
  FakeCost cost = seconds_by_name();
  cost.taken = {0, {0.25}};
  const Forecast f = interpret(p, cost, {true, {}});
  EXPECT_EQ(span_of(f, 1, "a").end.value, 1.5 + 2 * 0.25);
  EXPECT_EQ(f.iteration.value, 5);
}

TEST(Interference, ComputingLosesAShareWhileACollectiveMovesBesideIt) {
  Program p;
  p.groups = {{program::Group::Kind::data, {Rank{0}, Rank{1}}}};
  for (int rank = 0; rank < 2; ++rank) add_rank(p, rank_class({compute("1"), sum("a", 0, {{0, 0}}), compute("4")}), {}, {0});
  FakeCost cost = seconds_by_name();
  EXPECT_EQ(interpret(p, cost).iteration.value, 5);
  cost.taken_by_collectives = 0.25;
  EXPECT_EQ(interpret(p, cost).iteration.value, 5 + 0.25 * 0.5);
  EXPECT_EQ(interpret(message_beside_computing("3"), cost).iteration.value, 5) << "of messages, nothing";
}

TEST(Interference, NothingIsTakenFromWhoWaits) {
  Program p;
  add_rank(p, rank_class({compute("1"), message("s", send, 0, {{0, 0}})}), {1});
  add_rank(p, rank_class({message("r", receive, 0), compute("2", {{0, 0}})}), {0});
  FakeCost cost = seconds_by_name();
  cost.taken = {0.5, {0.5}};
  EXPECT_EQ(interpret(p, cost).iteration.value, 3.25);
}

TEST(Interference, IsTheMeanOverAnInstructionsRuns) {
  Program p;  // of three messages, the first two move while their sender computes; the last microbatch counts by itself
  add_rank(p, rank_class({compute("1"), message("s", send, 0, {{0, 0}})}, 3), {1});
  add_rank(p, rank_class({message("r", receive, 0)}, 3), {0});
  FakeCost cost = seconds_by_name();
  cost.taken = {0, {0.5}};
  const Forecast f = interpret(p, cost, {true, {}});
  EXPECT_EQ(span_of(f, 1, "r", 0).end.value, 1.25 + 0.25);
  EXPECT_EQ(span_of(f, 1, "r", 1).end.value, 2.25 + 0.25);
  EXPECT_EQ(span_of(f, 1, "r", 2).end.value, 3.25);
}

TEST(Machine, MessagesBetweenTwoRanksShareTheirPath) {
  Program p;
  add_rank(p, rank_class({message("s", send, 0)}, 4), {1});
  add_rank(p, rank_class({message("r", receive, 0)}, 4), {0});
  EXPECT_EQ(interpret(p, FakeCost{}).iteration.value, 4 * 0.25);
}

TEST(Machine, BlockingMessageHoldsTheComputeQueueOfBothEnds) {
  Program p;
  add_rank(p, rank_class({compute("1"), blocking("s", send, 0), compute("4")}), {1});
  add_rank(p, rank_class({compute("3"), blocking("r", receive, 0), compute("2")}), {0});
  const Forecast f = interpret(p, seconds_by_name(), {true, {}});
  EXPECT_EQ(span_of(f, 0, "s").start.value, 3);
  EXPECT_EQ(span_of(f, 0, "4").start.value, 3.25);
  EXPECT_EQ(span_of(f, 1, "2").start.value, 3.25);
  EXPECT_EQ(f.iteration.value, 7.25);
  for (const auto& kind : f.kinds) EXPECT_EQ(kind.breakdown[simulate::Activity::activation_transfer].value, 0.25);
  EXPECT_EQ(f.kinds[0].breakdown[simulate::Activity::bubble].value, 2);  // the sender stands from 1 to 3
}

TEST(Machine, BlockingMessageMeetsAPostedOne) {
  Program p;  // the receiver has posted, so only the sender's compute queue stands
  add_rank(p, rank_class({compute("1"), blocking("s", send, 0), compute("1")}, 2), {1});
  add_rank(p, rank_class({message("r", receive, 0), compute("0.5")}, 2), {0});
  const Forecast f = interpret(p, seconds_by_name(), {true, {}});
  EXPECT_EQ(span_of(f, 0, "s", 1).start.value, 3.25);
  EXPECT_EQ(f.iteration.value, 4.5);
  EXPECT_EQ(f.kinds[1].breakdown[simulate::Activity::forward].value, 1);
}

TEST(Machine, BlockingMessagesThatCrossNeverEnd) {
  Program p;  // both send first and receive then: each stands at its send
  for (int r = 0; r < 2; ++r) add_rank(p, rank_class({blocking("s", send, 0), blocking("r", receive, 0)}), {1 - r});
  EXPECT_NE(fault_of(p, FakeCost{}).find("never ends: rank 0 cannot finish \"s\" of microbatch 0, which waits for its other end"),
            std::string::npos)
      << fault_of(p, FakeCost{});
}

TEST(Machine, ReceivesFromTwoRanksFinishInAnyOrder) {
  Program p;
  add_rank(p, rank_class({compute("9"), message("s", send, 0, {{0, 0}})}), {2});
  add_rank(p, rank_class({message("s", send, 0)}), {2});
  add_rank(p, rank_class({message("late", receive, 0), message("early", receive, 1), compute("1", {{1, 0}})}), {0, 1});
  const Forecast f = interpret(p, seconds_by_name(), {true, {}});
  EXPECT_EQ(span_of(f, 2, "early").end.value, 0.25);
  EXPECT_EQ(span_of(f, 2, "1").start.value, 0.25);
  EXPECT_EQ(span_of(f, 2, "late").end.value, 9.25);
}

TEST(Machine, CollectiveStartsWithItsLastMemberAndBlocksItsQueue) {
  Program p;
  p.groups = {{program::Group::Kind::tensor, {Rank{0}, Rank{1}}}};
  add_rank(p, rank_class({compute("1"), sum("a", 0, {{0, 0}}), sum("b", 0), compute("2", {{1, 0}})}), {}, {0});
  add_rank(p, rank_class({compute("4"), sum("a", 0, {{0, 0}}), sum("b", 0), compute("2", {{1, 0}})}), {}, {0});
  const Forecast f = interpret(p, seconds_by_name(), {true, {}});
  EXPECT_EQ(span_of(f, 0, "a").start.value, 4);
  EXPECT_EQ(span_of(f, 0, "b").start.value, 4.5);
  EXPECT_EQ(span_of(f, 0, "2").start.value, 4.5);
  EXPECT_EQ(f.iteration.value, 6.5);
  EXPECT_EQ(f.kinds[0].breakdown[simulate::Activity::tensor_collective].value, 0.5);  // the second hides behind compute
  EXPECT_EQ(f.kinds[0].breakdown[simulate::Activity::bubble].value, 3);
}

TEST(Machine, WaitsNameEarlierMicrobatches) {
  Program p;  // a sum may begin its microbatch only when the compute two microbatches before it is done
  p.groups = {{program::Group::Kind::data, {Rank{0}, Rank{1}}}};
  for (int r = 0; r < 2; ++r) add_rank(p, rank_class({sum("s", 0, {{1, 2}}), compute("3", {{0, 0}})}, 4), {}, {0});
  const Forecast f = interpret(p, seconds_by_name(), {true, {}});
  EXPECT_EQ(span_of(f, 0, "s", 1).start.value, 0.5);
  EXPECT_EQ(span_of(f, 0, "s", 2).start.value, 3.5);
  EXPECT_EQ(span_of(f, 0, "s", 3).start.value, 6.5);
}

TEST(Machine, CrossedMessagesAreRefusedNotWaitedFor) {
  Program p;  // each sends only after it has received
  for (int r = 0; r < 2; ++r) add_rank(p, rank_class({message("r", receive, 0), message("s", send, 0, {{0, 0}})}), {1 - r});
  EXPECT_NE(fault_of(p, FakeCost{}).find("never ends"), std::string::npos) << fault_of(p, FakeCost{});
}

TEST(Machine, MessageWithoutItsOtherEndIsRefused) {
  Program p;
  add_rank(p, rank_class({message("lonely", send, 0)}), {1});
  add_rank(p, rank_class({compute("1")}), {0});
  EXPECT_NE(fault_of(p, seconds_by_name()).find("\"lonely\" of microbatch 0 of rank 0 never meets its other end"), std::string::npos);
}

TEST(Machine, CollectivesInAnotherOrderAreRefused) {
  Program p;
  p.groups = {{program::Group::Kind::tensor, {Rank{0}, Rank{1}}}, {program::Group::Kind::data, {Rank{0}, Rank{1}}}};
  add_rank(p, rank_class({sum("a", 0), sum("b", 1)}), {}, {0, 1});
  add_rank(p, rank_class({sum("b", 1), sum("a", 0)}), {}, {0, 1});
  EXPECT_NE(fault_of(p, FakeCost{}).find("never ends: rank 0 cannot finish \"a\" of microbatch 0"), std::string::npos);
}

TEST(Machine, WrongReferencesAreRefused) {
  Program p;
  add_rank(p, rank_class({message("s", send, 3)}), {0});
  EXPECT_NE(fault_of(p, FakeCost{}).find("peer slot 3"), std::string::npos);
  Program q;
  add_rank(q, rank_class({compute("1", {{7, 0}})}));
  EXPECT_NE(fault_of(q, FakeCost{}).find("waits for instruction 7"), std::string::npos);
  Program r;
  add_rank(r, rank_class({sum("s", 2)}), {}, {});
  EXPECT_NE(fault_of(r, FakeCost{}).find("group slot 2"), std::string::npos);
}

TEST(Machine, IdleRanksTakeNoPart) {
  Program p;
  add_rank(p, rank_class({compute("2")}));
  p.ranks.push_back({});
  const Forecast f = interpret(p, seconds_by_name());
  EXPECT_EQ(f.iteration.value, 2);
  ASSERT_EQ(f.kinds.size(), 1u);
  EXPECT_EQ(f.kinds[0].ranks, std::vector<Rank>{Rank{0}});
}

}  // namespace
}  // namespace flotilla::machine_test
