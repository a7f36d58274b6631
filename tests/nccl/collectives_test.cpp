// What arrives where, bit by bit, between two to eight processes; sizes that nothing divides, beyond the stand-in's pieces.
#include <bit>
#include <cstring>
#include <numeric>

#include "nccl/members.hpp"

namespace flotilla::nccl {
namespace {

using testing::Member;
using testing::run_members;

constexpr std::int64_t count = 50001;

float value(int member, std::int64_t i) { return static_cast<float>((member + 1) * (1 << (i % 13)) + i % 7) / 3; }

std::vector<float> values(int member, std::int64_t n) {
  std::vector<float> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(value(member, i));
  return v;
}

std::vector<float> sums(int members, std::int64_t n) {
  auto v = values(0, n);
  for (int m = 1; m < members; ++m)
    for (std::int64_t i = 0; i < n; ++i) v[static_cast<std::size_t>(i)] += value(m, i);
  return v;
}

std::uint16_t bf16(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

class Collectives : public ::testing::TestWithParam<int> {
 protected:
  /// Every member is content.
  void run(const std::function<void(Member&, NcclCommunicator&)>& body) {
    const UniqueId id = make_unique_id();
    const auto codes = run_members(GetParam(), [&](Member& member) {
      auto c = member.join(id);
      body(member, c);
      c.leave();
    });
    EXPECT_EQ(codes, std::vector<int>(static_cast<std::size_t>(GetParam()), 0));
  }
};

TEST_P(Collectives, AllReduce) {
  run([](Member& m, NcclCommunicator& c) {
    const auto data = m.upload(values(m.index, count));
    c.all_reduce(data, ElementType::fp32, count, m.stream);
    EXPECT_EQ(m.download<float>(data, count), sums(m.count, count));
  });
}

TEST_P(Collectives, AllReduceRoundsBf16Once) {
  run([](Member& m, NcclCommunicator& c) {
    std::vector<std::uint16_t> mine, expected;
    for (const float v : values(m.index, 999)) mine.push_back(bf16(v));
    for (std::int64_t i = 0; i < 999; ++i) {
      float sum = 0;
      for (int r = 0; r < m.count; ++r) {
        const float rounded = std::bit_cast<float>(std::uint32_t{bf16(value(r, i))} << 16);
        sum = r == 0 ? rounded : sum + rounded;
      }
      expected.push_back(bf16(sum));
    }
    const auto data = m.upload(mine);
    c.all_reduce(data, ElementType::bf16, 999, m.stream);
    EXPECT_EQ(m.download<std::uint16_t>(data, 999), expected);
  });
}

TEST_P(Collectives, ReduceScatter) {
  run([](Member& m, NcclCommunicator& c) {
    constexpr std::int64_t piece = 20001;
    const auto all = m.upload(values(m.index, piece * m.count));
    const auto mine = m.upload(std::vector<float>(piece));
    c.reduce_scatter(all, mine, ElementType::fp32, piece, m.stream);
    const auto expected = sums(m.count, piece * m.count);
    const auto from = expected.begin() + m.index * piece;
    EXPECT_EQ(m.download<float>(mine, piece), (std::vector<float>{from, from + piece}));
  });
}

TEST_P(Collectives, AllGatherInPlace) {
  run([](Member& m, NcclCommunicator& c) {
    std::vector<float> filled(static_cast<std::size_t>(count * m.count)), expected;
    const auto mine = values(m.index, count);
    std::copy(mine.begin(), mine.end(), filled.begin() + m.index * count);
    for (int r = 0; r < m.count; ++r)
      for (const float v : values(r, count)) expected.push_back(v);
    const auto all = m.upload(filled);
    c.all_gather(all + m.index * count * 4, all, Bytes{count * 4}, m.stream);
    EXPECT_EQ(m.download<float>(all, expected.size()), expected);
  });
}

/// Member i sends i + 1 elements to each other member, and one message more to its neighbour: both keep their order.
TEST_P(Collectives, UnequalExchange) {
  run([](Member& m, NcclCommunicator& c) {
    const auto mine = m.upload(values(m.index, count));
    const auto got = m.upload(std::vector<float>(static_cast<std::size_t>(count * m.count)));
    const auto extra = m.upload(std::vector<float>(1));
    const int right = (m.index + 1) % m.count, left = (m.index + m.count - 1) % m.count;
    std::vector<ExchangeMessage> transfers;
    for (int peer = 0; peer < m.count; ++peer) {
      if (peer == m.index) continue;
      transfers.push_back({ExchangeMessage::Direction::send, peer, mine, Bytes{4 * (count - m.index)}});
      transfers.push_back({ExchangeMessage::Direction::receive, peer, got + peer * count * 4, Bytes{4 * (count - peer)}});
    }
    transfers.push_back({ExchangeMessage::Direction::send, right, mine + 40, Bytes{4}});
    transfers.push_back({ExchangeMessage::Direction::receive, left, extra, Bytes{4}});
    c.exchange(transfers, m.stream);
    for (int peer = 0; peer < m.count; ++peer)
      if (peer != m.index) {
        EXPECT_EQ(m.download<float>(got + peer * count * 4, static_cast<std::size_t>(count - peer)), values(peer, count - peer));
      }
    EXPECT_EQ(m.download<float>(extra, 1)[0], value(left, 10));
  });
}

INSTANTIATE_TEST_SUITE_P(Members, Collectives, ::testing::Values(2, 3, 5, 8));

/// Two communicators of the same processes, each on a stream of its own.
void two_sums(Member& m, std::vector<NcclCommunicator>& both, bool swapped, Seconds patience) {
  const auto other = m.device.make_stream();
  const auto a = m.upload(values(m.index, 100)), b = m.upload(values(m.index, 100));
  auto a_done = m.device.make_event(), b_done = m.device.make_event();
  const auto first = [&] {
    both[0].all_reduce(a, ElementType::fp32, 100, m.stream);
    auto s = m.stream;
    s.record(a_done);
  };
  const auto second = [&] {
    both[1].all_reduce(b, ElementType::fp32, 100, other);
    auto s = other;
    s.record(b_done);
  };
  if (swapped) {
    second();
    first();
  } else {
    first();
    second();
  }
  both[0].await(a_done, patience);
  both[1].await(b_done, patience);
  EXPECT_EQ(m.download<float>(a, 100), sums(m.count, 100));
}

TEST(Orders, SameOrderGoesThrough) {
  const UniqueId one = make_unique_id(), two = make_unique_id();
  const auto codes = run_members(3, [&](Member& m) {
    std::vector<NcclCommunicator> both{m.join(one), m.join(two)};
    two_sums(m, both, false, testing::limit);
    for (auto& c : both) c.leave();
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0}));
}

/// What the program's proof refuses: on a GPU that one operation fills, it hangs, and the deadline finds it.
TEST(Orders, UnlikeOrderHangsAndIsFoundByTheDeadline) {
  const UniqueId one = make_unique_id(), two = make_unique_id();
  const auto codes = run_members(3, [&](Member& m) {
    std::vector<NcclCommunicator> both{m.join(one), m.join(two)};
    const std::string told = testing::error_of([&] { two_sums(m, both, m.index == 0, Seconds{1}); });
    EXPECT_NE(told.find("not done after 1 s: a member is missing or hangs"), std::string::npos) << told;
    EXPECT_TRUE(abort_all(both, testing::limit));
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0}));
}

}  // namespace
}  // namespace flotilla::nccl
