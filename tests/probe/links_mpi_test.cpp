#include "links.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "flotilla/comm/agree.hpp"
#include "flotilla/mpi/session.hpp"
#include "ping_pong.hpp"

namespace {

using namespace flotilla;

constexpr Seconds patience{30};

const comm::World& world() {
  static mpi::Session session;
  static const comm::World all{session.world(), patience};
  return all;
}

/// Every rank on a host of its own, so that links between hosts and zones are measured too; what carries them here is this machine.
std::vector<cluster::Device> pretended(bool zones) {
  std::vector<cluster::Device> devices;
  for (int r = 0; r < world().size(); ++r)
    devices.push_back({Rank{r}, "cpu", "n" + std::to_string(r), zones ? "z" + std::to_string(r % 2) : "", 0, 1});
  return devices;
}

TEST(MeasureLinks, EveryTwoHosts) {
  const auto links = probe::measure_links(world(), pretended(false), Seconds{0.3}, patience);
  ASSERT_EQ(links.size(), world().size() == 2 ? 1u : 3u);
  for (const auto& link : links) {
    EXPECT_EQ(link.level, cluster::LinkLevel::zone);
    EXPECT_NE(link.from, link.to);
    ASSERT_FALSE(link.pieces.empty());
    EXPECT_GT(cluster::transfer_time(link, Bytes{1 << 20}), cluster::transfer_time(link, Bytes{8}));
    EXPECT_GE(link.relative_scatter, 0);
  }
}

TEST(MeasureLinks, ZonesAreJoinedByWideLinks) {
  const auto links = probe::measure_links(world(), pretended(true), Seconds{0.3}, patience);
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
  const auto links = probe::measure_links(world(), pretended(false), Seconds{0.2}, patience);
  std::string all;
  for (const auto& link : links)
    for (const auto& piece : link.pieces)
      all += text(piece.from.count, " ", std::hexfloat, piece.latency.value, " ", piece.bandwidth.value, "\n");
  EXPECT_NO_THROW(comm::require_same(world(), "the links", all, patience));
}

TEST(PingPong, ASilentPeerIsNamedByItsPartner) {
  ucx::Worker worker{world().size()};
  const std::string mine{reinterpret_cast<const char*>(worker.address().data()), worker.address().size()};
  const auto all = mpi::all_gather_strings(world().control(), mine, patience);
  if (world().rank() == Rank{0}) {
    ucx::Address address(all[1].size());
    std::memcpy(address.data(), all[1].data(), all[1].size());
    auto endpoint = worker.connect(address, world().name(Rank{1}), ucx::Watch::off);
    try {
      probe::ask({endpoint, 1, 2, Seconds{0.2}}, Seconds{0.1});
      ADD_FAILURE() << "a rank that does not answer was measured";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::communication);
      EXPECT_NE(std::string{error.what()}.find(world().name(Rank{1})), std::string::npos) << error.what();
    }
  }
  mpi::barrier(world().control(), patience);
}

TEST(PingPong, ChangedBytesAreNoticed) {
  ucx::Worker worker{world().size()};
  const auto address = worker.address();
  const auto all = mpi::all_gather_strings(world().control(), {reinterpret_cast<const char*>(address.data()), address.size()}, patience);
  const auto connect = [&](int peer) {
    ucx::Address theirs(all[static_cast<std::size_t>(peer)].size());
    std::memcpy(theirs.data(), all[static_cast<std::size_t>(peer)].data(), theirs.size());
    return worker.connect(theirs, world().name(Rank{peer}), ucx::Watch::off);
  };
  if (world().rank() == Rank{0}) {
    auto endpoint = connect(1);
    EXPECT_THROW(probe::ask({endpoint, 1, 2, patience}, Seconds{0.1}), Error);
  } else if (world().rank() == Rank{1}) {
    auto endpoint = connect(0);
    std::vector<std::byte> announcement(16), data(8);
    endpoint.receive(announcement, 1, patience);
    endpoint.receive(data, 1, patience);
    data[5] ^= std::byte{1};
    endpoint.send(data, 2, patience);
  }
  mpi::barrier(world().control(), patience);
}

}  // namespace
