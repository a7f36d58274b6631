// A member that dies, hangs, is late or adds wrongly, in init and in operations: found within the deadline, named, survived.
#include "nccl/members.hpp"
#include "support/refusal.hpp"

namespace flotilla::nccl {
namespace {

using testing::error_of;
using testing::limit;
using testing::Member;
using testing::run_members;
using tests::expect_contains;

constexpr Seconds short_limit{1};
const std::vector<float> ones(1000, 1);

void sum(Member& m, NcclCommunicator& c, gpu::DevicePointer data, Seconds patience) {
  auto done = m.device.make_event();
  c.all_reduce(data, ElementType::fp32, 1000, m.stream);
  m.stream.record(done);
  c.await(done, patience);
}

class Faults : public ::testing::Test {
 protected:
  const UniqueId id_ = make_unique_id();
};

TEST_F(Faults, HangInInit) {
  const auto codes = run_members(
      3,
      [&](Member& m) {
        auto c = NcclCommunicator::join(m.device, id_, 3, m.index, "data group of rank 0 on n1, rank 1 on n2", short_limit);
        expect_contains(error_of([&] { c.await_ready(); }),
                        text("NCCL: ncclCommInitRankConfig of member ", m.index,
                             " of 3 of the data group of rank 0 on n1, rank 1 on n2: not done after 1 s"));
        EXPECT_TRUE(abort_all({&c, 1}, limit));
      },
      "init_hang:1");
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0}));
}

TEST_F(Faults, DeathInInit) {
  const auto codes = run_members(
      3, [&](Member& m) { error_of([&] { m.join(id_, "test group", short_limit); }); }, "init_die:2");
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 9}));
}

TEST_F(Faults, LateInInitAndInAnOperationIsNoFault) {
  const auto codes = run_members(
      3,
      [&](Member& m) {
        auto c = m.join(id_);
        const auto data = m.upload(ones);
        sum(m, c, data, limit);
        EXPECT_EQ(m.download<float>(data, 1)[0], 3);
        c.leave();
      },
      "init_slow:1,slow@1:2");
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0}));
}

TEST_F(Faults, SurvivorsOfADeathFormAnewAndGoOn) {
  const UniqueId again = make_unique_id();
  const auto codes = run_members(
      4,
      [&](Member& m) {
        auto c = m.join(id_);
        const auto data = m.upload(ones);
        sum(m, c, data, limit);
        expect_contains(error_of([&] { sum(m, c, data, short_limit); }), "not done after 1 s: a member is missing or hangs");
        ASSERT_TRUE(abort_all({&c, 1}, limit));
        expect_contains(error_of([&] { sum(m, c, data, short_limit); }), "the communicator was given up");
        auto smaller = NcclCommunicator::join(m.device, again, 3, m.index < 2 ? m.index : 2, "smaller group", limit);
        smaller.await_ready();
        const auto fresh = m.upload(ones);
        sum(m, smaller, fresh, limit);
        EXPECT_EQ(m.download<float>(fresh, 1)[0], 3);
        smaller.leave();
      },
      "die@2:2");
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 9, 0}));
}

TEST_F(Faults, AsynchronousErrorIsSeenBeforeTheDeadline) {
  const auto codes = run_members(
      2,
      [&](Member& m) {
        auto c = m.join(id_);
        const auto data = m.upload(ones);
        const std::string told = error_of([&] { sum(m, c, data, m.index == 0 ? limit : short_limit); });
        expect_contains(told, m.index == 0 ? "remote process exited" : "not done after 1 s");
        EXPECT_TRUE(abort_all({&c, 1}, limit));
      },
      "async@1:0");
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

TEST_F(Faults, AWrongSumArrivesAsOne) {
  const auto codes = run_members(
      2,
      [&](Member& m) {
        auto c = m.join(id_);
        const auto data = m.upload(ones);
        sum(m, c, data, limit);
        EXPECT_EQ(m.download<float>(data, 1)[0], m.index == 1 ? 3 : 2);
        c.leave();
      },
      "wrong@1:1");
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

TEST_F(Faults, UnlikeCallsAreTold) {
  const auto codes = run_members(2, [&](Member& m) {
    auto c = m.join(id_);
    const auto data = m.upload(ones);
    c.all_reduce(data, ElementType::fp32, 1000 - m.index, m.stream);
    m.stream.wait(limit);
  });
  EXPECT_EQ(codes, (std::vector<int>{87, 87}));
}

TEST_F(Faults, LeavingWithoutAWordEndsWhatIsUnderWay) {
  const auto codes = run_members(2, [&](Member& m) {
    auto c = m.join(id_);
    if (m.index == 0) c.all_reduce(m.upload(ones), ElementType::fp32, 1000, m.stream);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

/// Two communicators, each with a sum under way on a stream of its own.
std::vector<NcclCommunicator> two_hanging_sums(Member& m, const UniqueId& one, const UniqueId& two) {
  std::vector<NcclCommunicator> both{m.join(one), m.join(two)};
  const auto a = m.upload(ones), b = m.upload(ones);
  both[0].all_reduce(a, ElementType::fp32, 1000, m.stream);
  both[1].all_reduce(b, ElementType::fp32, 1000, m.device.make_stream());
  return both;
}

/// The abort of one communicator waits for its device, where an operation of the other one hangs.
TEST(Aborts, TwoCommunicatorsAfterADeathAreGivenUpAsOne) {
  const UniqueId one = make_unique_id(), two = make_unique_id();
  const auto codes = run_members(
      3,
      [&](Member& m) {
        auto both = two_hanging_sums(m, one, two);
        auto done = m.device.make_event();
        m.stream.record(done);
        error_of([&] { both[0].await(done, short_limit); });
        EXPECT_TRUE(abort_all(both, limit));
      },
      "die@1:2");
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 9}));
}

TEST(Aborts, OneByOneHangsAndItsCallerDoesNot) {
  const UniqueId one = make_unique_id(), two = make_unique_id();
  const auto codes = run_members(
      3,
      [&](Member& m) {
        auto both = two_hanging_sums(m, one, two);
        EXPECT_FALSE(abort_all({&both[0], 1}, short_limit));
        std::_Exit(3);
      },
      "die@1:2");
  EXPECT_EQ(codes, (std::vector<int>{3, 3, 9}));
}

}  // namespace
}  // namespace flotilla::nccl
