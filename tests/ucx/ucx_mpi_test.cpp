#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>
#include <random>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/ucx/worker.hpp"
#include "support/refusal.hpp"
#include "support/waiting.hpp"

namespace {

using flotilla::Error;
using flotilla::ErrorKind;
using flotilla::Seconds;
using flotilla::ucx::Address;
using flotilla::ucx::Endpoint;
using flotilla::ucx::PeerWatch;
using flotilla::ucx::Worker;

constexpr Seconds patience = flotilla::tests::hang_bound();

int rank() {
  int r = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  return r;
}
int size() {
  int n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}

std::vector<Address> gather(const Address& mine) {
  int bytes = static_cast<int>(mine.size()), most = 0;
  std::vector<int> sizes(static_cast<std::size_t>(size()));
  MPI_Allgather(&bytes, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  for (int s : sizes) most = std::max(most, s);
  Address padded = mine, all(static_cast<std::size_t>(most * size()));
  padded.resize(static_cast<std::size_t>(most));
  MPI_Allgather(padded.data(), most, MPI_BYTE, all.data(), most, MPI_BYTE, MPI_COMM_WORLD);
  std::vector<Address> addresses;
  for (int r = 0; r < size(); ++r)
    addresses.emplace_back(all.begin() + r * most, all.begin() + r * most + sizes[static_cast<std::size_t>(r)]);
  return addresses;
}

/// Everybody leaves together while outstanding work of the others moves on.
void barrier(Worker& worker) {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    worker.progress();
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
}

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<std::byte> data(bytes);
  for (auto& b : data) b = static_cast<std::byte>(random());
  return data;
}

std::uint64_t tag(int from, int to) { return static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to); }

class EveryWatch : public ::testing::TestWithParam<PeerWatch> {};

TEST_P(EveryWatch, PingPongCarriesEveryByte) {
  Worker worker{size()};
  const auto addresses = gather(worker.address());
  for (int low = 0; low < size(); ++low)
    for (int high = low; high < size(); ++high) {
      if (rank() == low || rank() == high) {
        const int peer = rank() == low ? high : low;
        Endpoint endpoint = worker.connect(addresses[static_cast<std::size_t>(peer)], "rank " + std::to_string(peer), GetParam());
        for (std::size_t bytes : {0u, 1u, 8u, 1000u, 65536u, 3000001u}) {
          const auto sent = pattern(bytes, static_cast<unsigned>(bytes + 1));
          std::vector<std::byte> got(bytes);
          if (low == high) {
            if (bytes > 8) continue;  // a rank to itself: only what is buffered can be sent before its receive
            endpoint.send(sent, tag(low, low), patience);
            endpoint.receive(got, tag(low, low), patience);
          } else if (rank() == low) {
            endpoint.send(sent, tag(low, high), patience);
            endpoint.receive(got, tag(high, low), patience);
          } else {
            endpoint.receive(got, tag(low, high), patience);
            endpoint.send(got, tag(high, low), patience);
          }
          EXPECT_TRUE(got == sent) << bytes << " bytes between " << low << " and " << high;
        }
        barrier(worker);
        endpoint.close(patience);
      } else {
        barrier(worker);
      }
      barrier(worker);
    }
}
INSTANTIATE_TEST_SUITE_P(Ucx, EveryWatch, ::testing::Values(PeerWatch::off, PeerWatch::peer_failure));

TEST(Deadline, ASilentPeerIsNamedInTime) {
  Worker worker{size()};
  const auto addresses = gather(worker.address());
  const int peer = (rank() + 1) % size();
  if (rank() == 0) {
    Endpoint endpoint = worker.connect(addresses[static_cast<std::size_t>(peer)], "rank 1 on nowhere", PeerWatch::off);
    std::vector<std::byte> buffer(1 << 20);
    const std::string message = flotilla::tests::refusal(ErrorKind::communication, [&] { endpoint.receive(buffer, 12345, Seconds{0.2}); });
    flotilla::tests::expect_contains(message, "rank 1 on nowhere");
    flotilla::tests::expect_contains(message, "200 ms");
    // The cancelled receive must not swallow a later message.
    if (size() == 1) {
      const auto sent = pattern(100, 3);
      std::vector<std::byte> got(100);
      endpoint.send(sent, 12345, patience);
      endpoint.receive(got, 12345, patience);
      EXPECT_TRUE(got == sent);
    }
  }
  barrier(worker);
}

TEST(Deadline, ALargeSendToADeafPeerEnds) {
  if (size() < 2) GTEST_SKIP() << "needs a peer";
  Worker worker{size()};
  const auto addresses = gather(worker.address());
  if (rank() == 0) {
    Endpoint endpoint = worker.connect(addresses[1], "rank 1", PeerWatch::peer_failure);
    const std::vector<std::byte> message(8 << 20);
    EXPECT_THROW(endpoint.send(message, 5, Seconds{0.3}), Error);
  }
  MPI_Barrier(MPI_COMM_WORLD);  // rank 1 makes no progress until here
  barrier(worker);
}

TEST(Receive, TheWrongSizeIsRefused) {
  Worker worker{1};
  Endpoint self = worker.connect(worker.address(), "myself", PeerWatch::off);
  const auto sent = pattern(16, 9);
  std::vector<std::byte> larger(32), smaller(8);
  self.send(sent, 1, patience);
  EXPECT_THROW(self.receive(larger, 1, patience), Error);
  self.send(sent, 2, patience);
  EXPECT_THROW(self.receive(smaller, 2, patience), Error);
}

TEST(Connect, AnEmptyAddressIsRefused) {
  Worker worker{1};
  EXPECT_THROW(worker.connect({}, "nobody", PeerWatch::off), Error);
}

TEST(Worker, EndpointsKeepItAlive) {
  auto worker = std::make_unique<Worker>(1);
  Endpoint self = worker->connect(worker->address(), "myself", PeerWatch::off);
  worker.reset();
  const auto sent = pattern(64, 4);
  std::vector<std::byte> got(64);
  self.send(sent, 1, patience);
  self.receive(got, 1, patience);
  EXPECT_TRUE(got == sent);
}

TEST(LibraryVersion, NamesTheLibrary) { EXPECT_EQ(flotilla::ucx::library_version().rfind("UCX 1.", 0), 0u); }

}  // namespace
