#include "uplinks.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "probe/pretended_hosts.hpp"
#include "support/waiting.hpp"
#include "timed_all_gather.hpp"

namespace {

using namespace flotilla;

using fixture::pretended;
using fixture::world;

constexpr Seconds patience = flotilla::tests::hang_bound();

TEST(MeasureUplinks, TheSameOnEveryRankWhateverTheirNumber) {
  const auto uplinks = probe::measure_uplinks(world(), pretended(2), Seconds{0.1}, patience);
  std::ostringstream all;
  all << std::hexfloat;
  for (const auto& uplink : uplinks) {
    EXPECT_TRUE(uplink.zone == "z0" || uplink.zone == "z1") << uplink.zone;
    EXPECT_GT(uplink.bandwidth.value, 0);
    all << uplink.zone << ' ' << uplink.bandwidth.value << '\n';
  }
  EXPECT_TRUE(uplinks.empty() || uplinks.size() == 2) << "of two zones both are measured, or neither";
  EXPECT_NO_THROW(comm::require_same(world(), "the uplinks", all.str(), patience));
  EXPECT_TRUE(world().size() > 3 || uplinks.empty()) << "one host in a zone";
}

TEST(MeasureUplinks, OneZoneHasNothingToMeasure) {
  EXPECT_TRUE(probe::measure_uplinks(world(), pretended(1), Seconds{0.1}, patience).empty());
  EXPECT_TRUE(probe::measure_uplinks(world(), pretended(world().size()), Seconds{0.1}, patience).empty()) << "one host in each";
}

TEST(TimedAllGather, EverybodyHearsEverybody) {
  const int me = world().rank().value;
  const comm::PhaseOutcome mine{me != 1, ErrorKind::communication, me == 1 ? "tired" : ""};
  const auto answers = probe::timed_all_gather(world(), mine, 10.0 * me, patience, patience);
  ASSERT_EQ(static_cast<int>(answers.size()), world().size());
  for (int r = 0; r < world().size(); ++r) {
    EXPECT_EQ(answers[static_cast<std::size_t>(r)].number, 10.0 * r);
    EXPECT_EQ(answers[static_cast<std::size_t>(r)].well, r != 1);
  }
}

}  // namespace
