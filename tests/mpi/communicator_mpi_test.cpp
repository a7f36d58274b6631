#include "flotilla/mpi/communicator.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <thread>

#include "flotilla/base/error.hpp"
#include "flotilla/mpi/session.hpp"
#include "message_type.hpp"
#include "mpi_try.hpp"
#include "native.hpp"
#include "support/refusal.hpp"
#include "support/waiting.hpp"

namespace flotilla::mpi {
namespace {

constexpr Seconds patience = flotilla::tests::hang_bound();
constexpr Seconds impatience{0.3};

std::vector<std::byte> pattern(std::size_t size, int seed) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed) * 7 + (i >> 8));
  return data;
}

class CommunicatorTest : public ::testing::Test {
 protected:
  void TearDown() override { MPI_Barrier(MPI_COMM_WORLD); }
  Session session;
  const Communicator& world = session.world();
  int next = (world.rank() + 1) % world.size();
  int previous = (world.rank() + world.size() - 1) % world.size();
};

TEST_F(CommunicatorTest, AdoptsARunningMpiAndLeavesItRunning) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(world.size(), size);
  { const Session inner; }
  EXPECT_TRUE(running());
  EXPECT_GE(world.largest_tag(), 32767);
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(library_version().find('\n'), std::string::npos);
}

TEST_F(CommunicatorTest, RingOfMessagesSmallAndLarge) {
  for (const std::size_t size : {0u, 1u, 1000u, 5'000'000u}) {
    const auto sent = pattern(size, world.rank());
    std::vector<std::byte> got(size);
    Request receive = world.receive(got, previous, 5);
    Request send = world.send(sent, next, 5);
    wait(receive, patience, "receive");
    wait(send, patience, "send");
    EXPECT_EQ(got, pattern(size, previous));
    EXPECT_EQ(receive.received().count, static_cast<std::int64_t>(size));
    EXPECT_FALSE(receive.active());
  }
}

TEST_F(CommunicatorTest, ShorterMessageTellsItsSizeAndLongerOneIsAnError) {
  if (world.size() == 1) return;  // Open MPI cuts a message to oneself without a word
  const auto sent = pattern(100, 0);
  std::vector<std::byte> wide(200);
  std::vector<std::byte> narrow(50);
  Request first = world.receive(wide, previous, 1);
  Request second = world.receive(narrow, previous, 2);
  Request send1 = world.send(sent, next, 1);
  Request send2 = world.send(sent, next, 2);
  wait(first, patience, "receive");
  EXPECT_EQ(first.received().count, 100);
  tests::expect_contains(tests::refusal(ErrorKind::communication, [&] { wait(second, patience, "receive"); }), "MPI_Test");
  wait(send1, patience, "send");
  wait(send2, patience, "send");
}

TEST_F(CommunicatorTest, BadPeerAndBadTagThrow) {
  std::vector<std::byte> data(4);
  EXPECT_THROW(static_cast<void>(world.send(data, world.size(), 0)), Error);
  EXPECT_THROW(static_cast<void>(world.receive(data, 0, -7)), Error);
}

TEST_F(CommunicatorTest, WithdrawnReceiveDoesNotTakeTheNextMessage) {
  std::vector<std::byte> abandoned(8);
  { const Request receive = world.receive(abandoned, previous, 3); }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto sent = pattern(8, world.rank());
  std::vector<std::byte> got(8);
  Request send = world.send(sent, next, 3);
  Request receive = world.receive(got, previous, 3);
  wait(receive, patience, "receive");
  wait(send, patience, "send");
  EXPECT_EQ(got, pattern(8, previous));
  EXPECT_EQ(abandoned, std::vector<std::byte>(8));
}

TEST_F(CommunicatorTest, DuplicatesKeepTrafficApart) {
  const Communicator other = world.duplicate(patience);
  EXPECT_EQ(other.rank(), world.rank());
  const auto one = pattern(16, 1);
  const auto two = pattern(16, 2);
  std::vector<std::byte> got_one(16);
  std::vector<std::byte> got_two(16);
  Request r2 = other.receive(got_two, previous, 0);
  Request r1 = world.receive(got_one, previous, 0);
  Request s1 = world.send(one, next, 0);
  Request s2 = other.send(two, next, 0);
  for (Request* request : {&r1, &r2, &s1, &s2}) wait(*request, patience, "message");
  EXPECT_EQ(got_one, one);
  EXPECT_EQ(got_two, two);
}

TEST_F(CommunicatorTest, SubsetIsNumberedInTheOrderListed) {
  std::vector<int> odd_last(static_cast<std::size_t>(world.size()));
  std::iota(odd_last.rbegin(), odd_last.rend(), 0);
  const Communicator reversed = world.subset(odd_last);
  EXPECT_EQ(reversed.rank(), world.size() - 1 - world.rank());
  if (world.rank() > 0 || world.size() == 1) return;
  const int me = 0;
  EXPECT_EQ(world.subset(std::span{&me, 1}, 1).size(), 1);
}

TEST_F(CommunicatorTest, GathersValuesAndTextsByRank) {
  const auto ranks = all_gather(world, world.rank() * 10, patience);
  const auto texts = all_gather_strings(world, std::string(static_cast<std::size_t>(world.rank()) * 3, 'x'), patience);
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(world.size()));
  for (int r = 0; r < world.size(); ++r) {
    EXPECT_EQ(ranks[static_cast<std::size_t>(r)], r * 10);
    EXPECT_EQ(texts[static_cast<std::size_t>(r)].size(), static_cast<std::size_t>(r) * 3);
  }
}

TEST_F(CommunicatorTest, BroadcastsFromAnyRoot) {
  for (int root = 0; root < world.size(); ++root) {
    const std::string mine = world.rank() == root ? text("plan of ", root, std::string(100'000, 'p')) : "ignored";
    EXPECT_EQ(broadcast_string(world, mine, root, patience), text("plan of ", root, std::string(100'000, 'p')));
    EXPECT_EQ(broadcast_string(world, "", root, patience), "");
  }
}

TEST_F(CommunicatorTest, DeadlineEndsTheWaitForARankThatDoesNotCome) {
  if (world.size() == 1) return;  // nobody to wait for
  const Communicator doomed = world.duplicate(patience);
  const bool absent = world.rank() == world.size() - 1;
  if (!absent) {
    EXPECT_THROW(barrier(doomed, impatience), Error);
    std::vector<std::byte> data(8);
    Request never = world.receive(data, world.size() - 1, 9);
    const std::string message = tests::refusal(ErrorKind::communication, [&] { wait(never, impatience, "a word from the absent"); });
    EXPECT_EQ(message.rfind("a word from the absent", 0), 0u) << message;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (absent) barrier(doomed, patience);
}

TEST_F(CommunicatorTest, TwoThreadsCommunicateAtOnce) {
  const Communicator other = world.duplicate(patience);
  const auto exchange = [&](const Communicator& communicator, int seed) {
    for (int round = 0; round < 50; ++round) {
      const auto sent = pattern(2000, seed + round);
      std::vector<std::byte> got(2000);
      Request receive = communicator.receive(got, previous, round);
      Request send = communicator.send(sent, next, round);
      wait(receive, patience, "receive");
      wait(send, patience, "send");
      EXPECT_EQ(got, sent);
    }
  };
  std::thread thread{[&] { exchange(other, 1000); }};
  exchange(world, 0);
  thread.join();
}

TEST_F(CommunicatorTest, MessagesBeyondTheReachOfAnIntArriveWhole) {
  for (const std::size_t size : {10'007u, 8'192u, 4'096u}) {
    const MessageType type{static_cast<std::int64_t>(size), 1024};
    EXPECT_EQ(type.count(), 1);
    const auto sent = pattern(size, world.rank());
    std::vector<std::byte> got(size);
    MPI_TRY(MPI_Sendrecv(sent.data(), type.count(), type.type(), next, 0, got.data(), type.count(), type.type(), previous, 0, native(world),
                         MPI_STATUS_IGNORE));
    EXPECT_EQ(got, pattern(size, previous));
  }
}

}  // namespace
}  // namespace flotilla::mpi
