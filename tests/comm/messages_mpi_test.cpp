// Point-to-point operations as the trainer uses them: made once, started many times, many in flight, one polling loop.
#include <algorithm>
#include <random>
#include <vector>

#include "allocations.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/persistent_operation.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "support/refusal.hpp"
#include "world_fixture.hpp"

namespace flotilla::comm {
namespace {

using Bytestring = std::vector<std::byte>;

Bytestring pattern(std::size_t size, int seed) {
  Bytestring data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i * 13 + (i >> 7) + static_cast<std::size_t>(seed) * 101);
  return data;
}

void finish(const std::vector<std::unique_ptr<PersistentOperation>>& operations) {
  const Seconds end = now() + patience;
  for (mpi::Backoff backoff;; backoff.pause()) {
    bool all = true;
    for (const auto& operation : operations) all = operation->progress() && all;
    if (all) return;
    ASSERT_LT(now(), end) << "hangs: " << operations.front()->describe();
  }
}

class MessagesTest : public WorldTest {
 protected:
  Rank next{(me + 1) % size};
  Rank previous{(me + size - 1) % size};
};

TEST_F(MessagesTest, AHollowMessageEndsAndLeavesTheBufferAsItWas) {
  constexpr std::size_t capacity = 200'000;
  const Bytestring out(capacity, std::byte{1}), before(capacity, std::byte{0xee});
  auto in = before;
  std::vector<std::unique_ptr<PersistentOperation>> operations;
  operations.push_back(make_receive(world, previous, 4, in.data(), {capacity}));
  operations.push_back(make_send(world, next, 4, out.data(), {capacity}));
  for (const bool drained : {true, false, true}) {
    in = before;
    operations[0]->start({capacity});
    if (drained)
      operations[1]->start_drained({capacity});
    else
      operations[1]->start({capacity});
    finish(operations);
    EXPECT_TRUE(in == (drained ? before : out));
  }
}

TEST_F(MessagesTest, RestartedWithChangingSizes) {
  constexpr std::size_t capacity = 3'000'000;
  Bytestring out(capacity);
  Bytestring in(capacity);
  std::vector<std::unique_ptr<PersistentOperation>> operations;
  operations.push_back(make_receive(world, previous, 4, in.data(), {capacity}));
  operations.push_back(make_send(world, next, 4, out.data(), {capacity}));
  EXPECT_TRUE(operations[0]->progress()) << "never started";
  std::mt19937 engine{5};  // the same on all ranks
  for (int round = 0; round < 30; ++round) {
    const std::size_t bytes = round == 0 ? 0 : round == 1 ? capacity : engine() % (round % 2 == 0 ? 5000 : capacity);
    std::ranges::copy(pattern(capacity, me + round), out.begin());
    std::ranges::fill(in, std::byte{0xee});
    const long before = allocations();
    operations[0]->start({static_cast<std::int64_t>(bytes)});
    operations[1]->start({static_cast<std::int64_t>(bytes)});
    finish(operations);
    EXPECT_EQ(allocations(), before);
    const auto expected = pattern(capacity, previous.value + round);
    ASSERT_TRUE(std::equal(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(bytes), expected.begin())) << round;
    ASSERT_TRUE(std::all_of(in.begin() + static_cast<std::ptrdiff_t>(bytes), in.end(), [](std::byte b) { return b == std::byte{0xee}; }));
  }
}

/// Everybody sends large messages to everybody, sends started first: blocking calls would hang here.
TEST_F(MessagesTest, AllToAllInFlightAtOnceOnSeveralChannels) {
  constexpr std::size_t bytes = 400'000;
  constexpr int channels = 3;
  std::vector<Bytestring> out;
  std::vector<Bytestring> in(static_cast<std::size_t>(size * channels), Bytestring(bytes));
  std::vector<std::unique_ptr<PersistentOperation>> operations;
  for (int peer = 0; peer < size; ++peer)
    for (int channel = 0; channel < channels; ++channel) out.push_back(pattern(bytes, (me * size + peer) * channels + channel));
  for (int peer = 0; peer < size; ++peer)
    for (int channel = channels - 1; channel >= 0; --channel)
      operations.push_back(make_send(world, Rank{peer}, channel, out[static_cast<std::size_t>(peer * channels + channel)].data(), {bytes}));
  for (int peer = 0; peer < size; ++peer)
    for (int channel = 0; channel < channels; ++channel)
      operations.push_back(
          make_receive(world, Rank{peer}, channel, in[static_cast<std::size_t>(peer * channels + channel)].data(), {bytes}));
  for (int round = 0; round < 3; ++round) {
    for (const auto& operation : operations) operation->start({bytes});
    finish(operations);
  }
  for (int peer = 0; peer < size; ++peer)
    for (int channel = 0; channel < channels; ++channel)
      EXPECT_EQ(in[static_cast<std::size_t>(peer * channels + channel)], pattern(bytes, (peer * size + me) * channels + channel));
}

TEST_F(MessagesTest, CopiesOfABufferOnOneChannelArriveInTheOrderStarted) {
  constexpr std::size_t copies = 5;
  constexpr std::size_t bytes = 70'000;
  std::vector<Bytestring> out;
  std::vector<Bytestring> in(copies, Bytestring(bytes));
  std::vector<std::unique_ptr<PersistentOperation>> operations;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    out.push_back(pattern(bytes, static_cast<int>(copy)));
    operations.push_back(make_send(world, next, 0, out[copy].data(), {bytes}));
    operations.push_back(make_receive(world, previous, 0, in[copy].data(), {bytes}));
  }
  for (const auto& operation : operations) operation->start({bytes});
  finish(operations);
  for (std::size_t copy = 0; copy < copies; ++copy) EXPECT_EQ(in[copy], out[copy]);
}

TEST_F(MessagesTest, AnotherSizeThanExpectedIsOurBug) {
  if (size == 1) return;  // Open MPI treats messages to oneself differently
  Bytestring out(100);
  Bytestring in(100);
  std::vector<std::unique_ptr<PersistentOperation>> operations;
  operations.push_back(make_receive(world, previous, 1, in.data(), {100}));
  const auto send = make_send(world, next, 1, out.data(), {100});
  operations[0]->start({100});
  send->start({60});
  tests::expect_contains(tests::refusal(ErrorKind::internal, [&] { finish(operations); }), world.name(previous));
  while (!send->progress()) {
  }
}

TEST_F(MessagesTest, DescribesItselfWhileItWaits) {
  Bytestring in(4096);
  const auto receive = make_receive(world, previous, 2, in.data(), {4096});
  receive->start({4096});
  EXPECT_FALSE(receive->progress());
  EXPECT_EQ(receive->describe(), text("receive ", Bytes{4096}, " from ", world.name(previous)));
  meet();
  const Bytestring out(4096);
  const auto send = make_send(world, next, 2, out.data(), {4096});
  send->start({4096});
  while (!receive->progress() || !send->progress()) {
  }
}

TEST_F(MessagesTest, RefusesChannelsAndPeersThatDoNotExist) {
  Bytestring data(8);
  EXPECT_THROW(make_send(world, next, -1, data.data(), {8}), Error);
  EXPECT_THROW(make_receive(world, Rank{size}, 0, data.data(), {8}), Error);
}

}  // namespace
}  // namespace flotilla::comm
