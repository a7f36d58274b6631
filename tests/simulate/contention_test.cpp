#include <gtest/gtest.h>

#include "machine/interpret.hpp"
#include "small_program.hpp"

// Messages and collectives that leave a host by the same cards: small programs and the exact times that follow.
namespace flotilla::contention_test {
namespace {

using fixture::add_rank;
using fixture::compute;
using fixture::FakeCost;
using fixture::message;
using fixture::rank_class;
using fixture::receive;
using fixture::seconds_by_name;
using fixture::send;
using fixture::span_of;
using fixture::sum;
using program::Program;
using simulate::Forecast;

/// Ranks 0 and 2 stand on host 0 and send to ranks 1 and 3 on hosts of their own, the second after `later` seconds.
Program two_streams(const std::string& later) {
  Program p;
  add_rank(p, rank_class({message("s", send, 0)}), {1});
  add_rank(p, rank_class({message("r", receive, 0)}), {0});
  add_rank(p, rank_class({compute(later), message("s", send, 0, {{0, 0}})}), {3});
  add_rank(p, rank_class({message("r", receive, 0)}), {2});
  return p;
}

FakeCost on_hosts(std::vector<std::uint64_t> hosts) {
  FakeCost cost = seconds_by_name();
  cost.host_of = std::move(hosts);
  return cost;
}

TEST(Contention, MessagesOutOfOneHostShareItsCards) {
  const Program p = two_streams("0.125");
  const Forecast f = interpret(p, on_hosts({0, 1, 0, 2}), {true, {}});
  // The first moves alone for half of its time; the other half takes twice as long.
  EXPECT_EQ(span_of(f, 1, "r").end.value, 0.375);
  // The second has moved half when the first is done.
  EXPECT_EQ(span_of(f, 3, "r").start.value, 0.125);
  EXPECT_EQ(f.iteration.value, 0.5);
}

TEST(Contention, TheOrderOfTheRanksDoesNotMatter) {
  Program p = two_streams("0.125");
  std::swap(p.classes[0], p.classes[2]);
  const Forecast f = interpret(p, on_hosts({0, 1, 0, 2}), {true, {}});
  EXPECT_EQ(span_of(f, 3, "r").end.value, 0.375);
  EXPECT_EQ(span_of(f, 1, "r").end.value, 0.5);
}

TEST(Contention, LanesEnoughForAllMeanNoWaiting) {
  FakeCost cost = on_hosts({0, 1, 0, 2});
  cost.lane_count = 2;
  EXPECT_EQ(interpret(two_streams("0.125"), cost).iteration.value, 0.375);
}

TEST(Contention, InsideAHostNobodyWaits) { EXPECT_EQ(interpret(two_streams("0.125"), on_hosts({0, 0, 0, 0})).iteration.value, 0.375); }

TEST(Contention, MessagesIntoOneHostShareItsCardsToo) {
  EXPECT_EQ(interpret(two_streams("0.125"), on_hosts({0, 2, 1, 2})).iteration.value, 0.5);
}

TEST(Contention, OutAndInDoNotDisturbEachOther) {
  Program p;  // both ends send and receive at once
  for (int r = 0; r < 2; ++r) add_rank(p, rank_class({message("r", receive, 0), message("s", send, 0)}), {1 - r});
  EXPECT_EQ(interpret(p, on_hosts({0, 1})).iteration.value, 0.25);
}

TEST(Contention, LatencyTakesNoCard) {
  FakeCost cost = on_hosts({0, 1, 0, 2});
  cost.latency_seconds = 1;
  const Forecast f = interpret(two_streams("0.125"), cost, {true, {}});
  EXPECT_EQ(span_of(f, 1, "r").end.value, 1.375);
  EXPECT_EQ(span_of(f, 3, "r").end.value, 1.5);
}

TEST(Contention, TheFullestWireDecides) {
  // Rank 1's host receives from three, rank 0's sends two messages: the one to rank 1 moves at a third, the other one at a half.
  Program p = two_streams("0");
  for (int pair = 0; pair < 2; ++pair) {
    const int sender = static_cast<int>(p.ranks.size());
    add_rank(p, rank_class({message("s", send, 0)}), {sender + 1});
    add_rank(p, rank_class({message("r", receive, 0)}), {sender});
  }
  const Forecast f = interpret(p, on_hosts({0, 1, 0, 2, 3, 1, 4, 1}), {true, {}});
  EXPECT_EQ(span_of(f, 3, "r").end.value, 0.5);
  EXPECT_DOUBLE_EQ(span_of(f, 1, "r").end.value, 0.75);
  EXPECT_DOUBLE_EQ(span_of(f, 5, "r").end.value, 0.75);
}

/// Two ranks of one class on host 0 that send to two of another on host 1.
Program two_equal_pairs() {
  Program p;
  p.classes = {rank_class({message("s", send, 0)}), rank_class({message("r", receive, 0)})};
  for (int r = 0; r < 4; ++r) {
    program::RankBinding binding;
    binding.rank_class = r / 2;
    binding.peers = {Rank{(r + 2) % 4}};
    p.ranks.push_back(binding);
  }
  return p;
}

TEST(Contention, EqualMessagesOfOneHostShareItsLanes) {
  FakeCost cost = on_hosts({0, 0, 1, 1});
  const Forecast f = interpret(two_equal_pairs(), cost);
  EXPECT_EQ(f.kinds.size(), 2u);
  EXPECT_EQ(f.iteration.value, 0.5);
  cost.lane_count = 2;
  EXPECT_EQ(interpret(two_equal_pairs(), cost).iteration.value, 0.25);
  cost = on_hosts({0, 1, 2, 3});
  EXPECT_EQ(interpret(two_equal_pairs(), cost).iteration.value, 0.25);
  cost = on_hosts({0, 1, 2, 2});  // into one host from two
  EXPECT_EQ(interpret(two_equal_pairs(), cost).iteration.value, 0.5);
}

TEST(Contention, OneMessageForATensorGroupIsOneFlow) {
  Program p = two_equal_pairs();
  for (auto& c : p.classes) {
    c.shape.tensor_parallel = 2;
    c.instructions[0].as<program::MessageEnd>()->once = true;
  }
  EXPECT_EQ(interpret(p, on_hosts({0, 0, 1, 1})).iteration.value, 0.25);
}

TEST(Contention, RanksOnFullerHostsAreAKindOfTheirOwn) {
  // Rank 2 shares its host with nobody: its message takes its own time.
  Program p;
  p.classes = {rank_class({message("s", send, 0)}), rank_class({message("r", receive, 0)})};
  for (int r = 0; r < 6; ++r) {
    program::RankBinding binding;
    binding.rank_class = r / 3;
    binding.peers = {Rank{(r + 3) % 6}};
    p.ranks.push_back(binding);
  }
  const Forecast f = interpret(p, on_hosts({0, 0, 1, 2, 3, 4}), {true, {}});
  ASSERT_EQ(f.kinds.size(), 4u);
  EXPECT_EQ(span_of(f, 0, "s").end.value, 0.5);
  EXPECT_EQ(span_of(f, 2, "s").end.value, 0.25);
}

/// Data-parallel groups of ranks 0 and 2, 1 and 3, which sum once.
Program two_equal_groups() {
  Program p;
  p.groups = {{program::Group::Kind::data, {Rank{0}, Rank{2}}}, {program::Group::Kind::data, {Rank{1}, Rank{3}}}};
  p.classes = {rank_class({sum("a", 0)})};
  for (int r = 0; r < 4; ++r) {
    program::RankBinding binding;
    binding.rank_class = 0;
    binding.groups = {r % 2};
    p.ranks.push_back(binding);
  }
  return p;
}

TEST(Contention, EqualGroupsOfTheSameHostsShareTheirCards) {
  const Program p = two_equal_groups();
  EXPECT_EQ(interpret(p, on_hosts({0, 0, 1, 1})).iteration.value, 1);
  EXPECT_EQ(interpret(p, on_hosts({0, 1, 0, 1})).iteration.value, 0.5);
}

FakeCost behind(std::vector<int> uplinks, double room) {
  FakeCost cost = on_hosts({0, 1, 2, 3});
  cost.uplink_of = std::move(uplinks);
  cost.uplink_room = room;
  return cost;
}

TEST(Contention, MessagesOfTwoHostsShareTheirZonesUplink) {
  const Forecast f = interpret(two_streams("0.125"), behind({0, 1, 0, 1}, 1), {true, {}});
  EXPECT_EQ(span_of(f, 1, "r").end.value, 0.375);
  EXPECT_EQ(f.iteration.value, 0.5);
  EXPECT_EQ(interpret(two_streams("0.125"), behind({0, 1, 0, 2}, 1)).iteration.value, 0.5) << "into two zones, out of one";
  EXPECT_EQ(interpret(two_streams("0.125"), behind({0, 2, 1, 2}, 1)).iteration.value, 0.5) << "out of two zones, into one";
  EXPECT_EQ(interpret(two_streams("0.125"), behind({0, -1, 0, -1}, 1)).iteration.value, 0.5) << "the other zone has room";
}

TEST(Contention, AnUplinkWithRoomHoldsNobodyUp) {
  EXPECT_EQ(interpret(two_streams("0.125"), behind({0, 1, 0, 1}, 2)).iteration.value, 0.375);
  EXPECT_EQ(interpret(two_streams("0.125"), behind({0, 1, 2, 3}, 1)).iteration.value, 0.375) << "each has its own";
  EXPECT_EQ(interpret(two_streams("0.125"), behind({0, 0, 0, 0}, 1)).iteration.value, 0.375) << "nobody leaves the zone";
}

TEST(Contention, OneAndAHalfFlowsOfRoom) {
  // Both at once move at three quarters; the second begins when half of the first is left.
  const Forecast f = interpret(two_streams("0.125"), behind({0, 1, 0, 1}, 1.5), {true, {}});
  EXPECT_DOUBLE_EQ(span_of(f, 1, "r").end.value, 0.125 + 0.125 / 0.75);
  EXPECT_DOUBLE_EQ(f.iteration.value, 0.125 + 0.125 / 0.75 + 0.125);
}

TEST(Contention, EqualMessagesShareTheUplink) {
  EXPECT_EQ(interpret(two_equal_pairs(), behind({0, 0, 1, 1}, 1)).iteration.value, 0.5);
  EXPECT_EQ(interpret(two_equal_pairs(), behind({0, 0, 1, 1}, 1)).kinds.size(), 2u);
  EXPECT_EQ(interpret(two_equal_pairs(), behind({0, 0, 1, 1}, 2)).iteration.value, 0.25);
  EXPECT_EQ(interpret(two_equal_pairs(), behind({0, 1, 2, 3}, 1)).iteration.value, 0.25);
  EXPECT_EQ(interpret(two_equal_pairs(), behind({-1, -1, 0, 0}, 1)).iteration.value, 0.5);
}

TEST(Contention, EqualGroupsShareTheUplink) {
  const Program p = two_equal_groups();
  EXPECT_EQ(interpret(p, behind({0, 0, 1, 1}, 1)).iteration.value, 1);
  EXPECT_EQ(interpret(p, behind({0, 1, 0, 1}, 1)).iteration.value, 0.5) << "each inside its zone";
}

TEST(Contention, ASumAndAMessageShareTheUplink) {
  Program p;
  p.groups = {{program::Group::Kind::data, {Rank{0}, Rank{1}}}};
  add_rank(p, rank_class({sum("a", 0)}), {}, {0});
  add_rank(p, rank_class({compute("0.125"), sum("a", 0, {{0, 0}})}), {}, {0});
  add_rank(p, rank_class({message("s", send, 0)}), {3});
  add_rank(p, rank_class({message("r", receive, 0)}), {2});
  const Forecast f = interpret(p, behind({0, 1, 1, 2}, 1), {true, {}});
  EXPECT_EQ(span_of(f, 3, "r").end.value, 0.375);
  EXPECT_EQ(f.iteration.value, 0.75);
}

TEST(Contention, ACollectiveSharesTheCardsOfAllItsHosts) {
  Program p;
  p.groups = {{program::Group::Kind::data, {Rank{0}, Rank{1}}}};
  add_rank(p, rank_class({sum("a", 0)}), {}, {0});
  add_rank(p, rank_class({compute("0.125"), sum("a", 0, {{0, 0}})}), {}, {0});
  add_rank(p, rank_class({message("s", send, 0)}), {3});
  add_rank(p, rank_class({message("r", receive, 0)}), {2});
  const Forecast f = interpret(p, on_hosts({0, 1, 1, 2}), {true, {}});
  EXPECT_EQ(span_of(f, 0, "a").start.value, 0.125);
  EXPECT_EQ(span_of(f, 3, "r").end.value, 0.375);
  EXPECT_EQ(f.iteration.value, 0.75);  // 0.125 of its 0.5 have moved until then
}

}  // namespace
}  // namespace flotilla::contention_test
