// What each two ends take for a message there and back: every rank learns the same, and who answers late is seen by those alone who wait
// for it. Times are bounded from below only.
#include "round_trips.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/world_fixture.hpp"
#include "flotilla/comm/agree.hpp"

namespace flotilla::monitor {
namespace {

class RoundTrips : public comm::WorldTest {
 protected:
  /// The same on all ranks.
  std::vector<double> agreed(const std::vector<double>& mine) const {
    const auto all = mpi::all_gather_bytes(world.control(), std::as_bytes(std::span{mine}), comm::patience);
    std::vector<double> every(mine.size() * static_cast<std::size_t>(size));
    std::copy(all.begin(), all.end(), std::as_writable_bytes(std::span{every}).begin());
    for (std::size_t i = 0; i < every.size(); ++i) EXPECT_EQ(every[i], mine[i % mine.size()]);
    return mine;
  }
};

TEST_F(RoundTrips, EveryPairIsMeasuredAndAllKnow) {
  std::vector<Rank> ends;
  for (int r = 0; r < size; ++r) ends.push_back(Rank{size - 1 - r});
  const auto times = agreed(round_trips(world, ends, comm::patience));
  ASSERT_EQ(times.size(), ends.size() * ends.size());
  for (std::size_t a = 0; a < ends.size(); ++a)
    for (std::size_t b = 0; b < ends.size(); ++b) {
      EXPECT_EQ(times[a * ends.size() + b] > 0, a != b);
      EXPECT_EQ(times[a * ends.size() + b], times[b * ends.size() + a]);
    }
}

TEST_F(RoundTrips, WhoAnswersLateIsSeen) {
  const std::vector<Rank> ends{Rank{0}, Rank{1}, Rank{2}};
  const auto late = [&](Rank peer) {
    if (me == 2 && peer == Rank{0}) std::this_thread::sleep_for(std::chrono::milliseconds{50});
  };
  const auto times = agreed(round_trips(world, ends, comm::patience, late));
  EXPECT_GE(times[2], 0.045) << "between ranks 0 and 2";
}

/// A rank that is no end waits for the others' numbers.
TEST_F(RoundTrips, SomeOfTheRanks) {
  const auto times = agreed(round_trips(world, {Rank{2}, Rank{0}}, comm::patience));
  ASSERT_EQ(times.size(), 4u);
  EXPECT_GT(times[1], 0);
}

TEST_F(RoundTrips, AgreementsGoOnBesideThem) {
  for (int i = 0; i < 3; ++i) {
    round_trips(world, {Rank{0}, Rank{1}, Rank{2}}, comm::patience);
    EXPECT_EQ(comm::agree_on(
                  world, "going on", [&] { return i; }, comm::patience),
              i);
  }
}

}  // namespace
}  // namespace flotilla::monitor
