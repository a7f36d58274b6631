#include "links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "ping_pong.hpp"
#include "probe/pretended_hosts.hpp"
#include "support/refusal.hpp"
#include "support/waiting.hpp"

namespace {

using namespace flotilla;

using fixture::pretended;
using fixture::world;

constexpr Seconds patience = flotilla::tests::hang_bound();

TEST(MeasureLinks, EveryTwoHosts) {
  const auto links = probe::measure_links(world(), pretended(0), Seconds{0.3}, patience);
  ASSERT_EQ(links.size(), world().size() == 2 ? 1u : 3u);
  for (const auto& link : links) {
    EXPECT_EQ(link.level, cluster::LinkLevel::zone);
    EXPECT_NE(link.from, link.to);
    ASSERT_FALSE(link.pieces.empty());
    EXPECT_GT(cluster::transfer_time(link, Bytes{1 << 20}), cluster::transfer_time(link, Bytes{8}));
    EXPECT_GE(link.relative_scatter, 0);
    ASSERT_FALSE(link.sum_pieces.empty());
    EXPECT_GT(cluster::sum_time(link, Bytes{1 << 20}), cluster::sum_time(link, Bytes{8}));
  }
}

TEST(MeasureLinks, ZonesAreJoinedByWideLinks) {
  const auto links = probe::measure_links(world(), pretended(2), Seconds{0.3}, patience);
  int wide = 0;
  for (const auto& link : links)
    if (link.level == cluster::LinkLevel::wide) {
      ++wide;
      EXPECT_EQ(link.from, "z0");
      EXPECT_EQ(link.to, "z1");
    }
  EXPECT_EQ(wide, 1);
}

TEST(MeasureLinks, TheSameOnEveryRank) {
  const auto links = probe::measure_links(world(), pretended(0), Seconds{0.2}, patience);
  std::ostringstream all;
  all << std::hexfloat;
  for (const auto& link : links)
    for (const auto& piece : link.pieces) all << piece.from.count << ' ' << piece.latency.value << ' ' << piece.bandwidth.value << '\n';
  EXPECT_NO_THROW(comm::require_same(world(), "the links", all.str(), patience));
}

TEST(LinkEnd, ASilentPeerIsNamedByItsPartner) {
  if (world().rank() == Rank{0}) {
    probe::LinkEnd end{world(), Rank{1}, 10, nullptr, Seconds{0.2}};
    tests::expect_contains(tests::refusal(ErrorKind::communication, [&] { probe::ask(end, Seconds{0.1}); }), world().name(Rank{1}));
  }
  mpi::barrier(world().control(), patience);
}

TEST(LinkEnd, ChangedBytesAreNoticed) {
  if (world().rank() == Rank{0}) {
    probe::LinkEnd end{world(), Rank{1}, 12, nullptr, patience};
    EXPECT_THROW(probe::ask(end, Seconds{0.1}), Error);
  } else if (world().rank() == Rank{1}) {
    probe::LinkEnd end{world(), Rank{0}, 12, nullptr, patience};
    std::vector<std::byte> announcement(16);
    end.hear(announcement);
    end.receive(Bytes{8});
    std::ranges::copy_n(end.in.begin(), 8, end.out.begin());
    end.out[5] ^= std::byte{1};
    end.send(Bytes{8});
  }
  mpi::barrier(world().control(), patience);
}

TEST(LinkEnd, SumsAreMeasuredWithMessages) {
  const auto groups = comm::connect(world(), {{program::Group::Kind::data, {Rank{0}, Rank{1}}}});
  if (world().rank().value < 2) {
    probe::LinkEnd end{world(), Rank{1 - world().rank().value}, 14, groups[0].get(), patience};
    if (world().rank() == Rank{1}) {
      probe::answer(end);
    } else {
      const auto samples = probe::ask(end, Seconds{0.2});
      const auto messages = probe::means(samples.messages), sums = probe::means(samples.sums);
      ASSERT_GE(messages.size(), 8u);
      ASSERT_EQ(sums.size(), messages.size());
      for (std::size_t i = 0; i < sums.size(); ++i) {
        EXPECT_EQ(sums[i].size, messages[i].size);
        EXPECT_GT(sums[i].time.value, 0);
      }
    }
  }
  mpi::barrier(world().control(), patience);
}

}  // namespace
