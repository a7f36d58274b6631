// Random faults in every phase of a communicator's life: joining, proof, sums, messages, and the same again after a change of plan.
#include <chrono>
#include <cstdio>
#include <random>

#include "nccl/members.hpp"

namespace flotilla::nccl {
namespace {

using testing::error_of;
using testing::Member;

constexpr int members = 3, rounds = 3, lost_peer = 77, dead = 9;
constexpr int operations = 1 + 2 * rounds;  // of one communicator: its proof, and a sum and a message in each round
constexpr std::size_t floats_each = 5000;
constexpr Seconds to_give_up{5};

struct Fault {
  std::string kind;
  int rank = 0;
  int at = 1;  ///< which communicator or operation of that rank

  bool in_init() const { return kind.starts_with("init"); }
  bool goes_on() const { return kind.ends_with("slow"); }
  bool kills() const { return kind.ends_with("die"); }
  bool stops() const { return kind.ends_with("stop"); }
  std::string words() const { return text(kind, "@", at, ":", rank); }
  std::string phase() const {
    const bool changed = in_init() ? at > 1 : at > operations;
    const int place = (at - 1) % operations;
    return text(in_init() ? "init" : place == 0 ? "proof" : place % 2 == 1 ? "sum" : "message", changed ? " after a change of plan" : "");
  }
};

Fault random_fault(std::mt19937& random) {
  static const std::vector<std::string> kinds{"init_hang", "init_slow", "init_die", "init_stop", "init_unplug", "hang",
                                              "slow",      "die",       "stop",     "unplug",    "async",       "wrong"};
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Fault fault{kinds[static_cast<std::size_t>(below(static_cast<int>(kinds.size())))], below(members)};
  fault.at = 1 + below(fault.in_init() ? 2 : 2 * operations);
  return fault;
}

/// One member's part of two plans, the second with the members in another order.
class Life {
 public:
  Life(Member& member, Seconds deadline)
      : m_{member},
        deadline_{deadline},
        ones_{member.upload(std::vector<float>(floats_each, 1))},
        came_{member.upload(std::vector<float>(floats_each, 0))} {}

  void plan(const UniqueId& id, int index, const std::string& name) {
    auto c = NcclCommunicator::join(m_.device, id, members, index, name, deadline_);
    c.await_ready();
    sum(c);
    for (int round = 0; round < rounds; ++round) {
      sum(c);
      message(c);
    }
    c.leave();
  }

 private:
  void sum(NcclCommunicator& c) {
    const auto data = m_.upload(std::vector<float>(floats_each, static_cast<float>(c.index() + 1)));
    c.all_reduce(data, ElementType::fp32, floats_each, m_.stream);
    await(c);
    expect(c, data, members * (members + 1) / 2.0f);
  }
  void message(NcclCommunicator& c) {
    const ExchangeMessage both[] = {
        {ExchangeMessage::Direction::send, (c.index() + 1) % members, ones_, Bytes{floats_each * 4}},
        {ExchangeMessage::Direction::receive, (c.index() + members - 1) % members, came_, Bytes{floats_each * 4}}};
    c.exchange(both, m_.stream);
    await(c);
    expect(c, came_, 1);
  }
  void await(const NcclCommunicator& c) {
    auto done = m_.device.make_event();
    m_.stream.record(done);
    c.await(done, deadline_);
  }
  void expect(const NcclCommunicator& c, gpu::DevicePointer data, float value) {
    for (const float each : m_.download<float>(data, floats_each))
      FLOTILLA_REQUIRE(each == value, ErrorKind::communication, "wrong values in the ", c.name());
  }

  Member& m_;
  const Seconds deadline_;
  const gpu::DevicePointer ones_, came_;
};

/// Its exit code: as a rank's that finds a peer lost; 70 where it cannot leave or does not say what was wrong.
int live(Member& m, const UniqueId& first, const UniqueId& second, Seconds deadline) {
  try {
    Life life{m, deadline};
    life.plan(first, m.index, "group of the first plan");
    life.plan(second, members - 1 - m.index, "group of the second plan");
    return 0;
  } catch (const Error& error) {
    const bool named = std::string_view{error.what()}.find("group of the ") != std::string_view::npos;
    _exit(error.kind() == ErrorKind::communication && named && abort_every(to_give_up) ? lost_peer : 70);
  }
}

/// Exit codes of the members.
std::vector<int> run_with(const Fault& fault, Seconds deadline) {
  const UniqueId first = make_unique_id(), second = make_unique_id();
  std::deque<tests::Child> children;
  for (int index = 0; index < members; ++index)
    children.emplace_back([&, index] {
      setenv("FLOTILLA_STANDIN_RANK", std::to_string(index).c_str(), 1);
      setenv("FLOTILLA_STANDIN_NCCL_FAULTS", fault.words().c_str(), 1);
      Member member{index, members};
      return live(member, first, second, deadline);
    });
  std::vector<int> codes(members);
  const auto wait_for = [&](int member) {
    codes[static_cast<std::size_t>(member)] = children[static_cast<std::size_t>(member)].wait_or_kill_stopped();
  };
  for (int member = 0; member < members; ++member)
    if (member != fault.rank) wait_for(member);
  wait_for(fault.rank);  // the others have left without it; a launcher kills it now
  return codes;
}

/// On a busy machine a member may be thought lost before the fault has come; then it gets more time.
std::vector<int> run_until_it_comes(const Fault& fault) {
  if (fault.goes_on()) return run_with(fault, flotilla::tests::hang_bound());
  const auto missed = [&](const std::vector<int>& codes) {
    return (fault.kills() || fault.stops()) && codes[static_cast<std::size_t>(fault.rank)] == lost_peer;
  };
  return tests::with_deadlines([&](Seconds deadline) { return run_with(fault, deadline); }, missed, {{3}, {12}, {48}, {192}});
}

void expect_end(const Fault& fault, int member, int code) {
  const bool fails = member == fault.rank;
  if (fault.goes_on())
    EXPECT_EQ(code, 0) << "member " << member;
  else if (fault.kills() && fails)
    EXPECT_EQ(code, dead);
  else if (fault.stops() && fails)
    EXPECT_EQ(code, -SIGKILL);
  else if (fault.kind == "wrong" && !fails)  // it may be through before the other has looked
    EXPECT_TRUE(code == 0 || code == lost_peer) << "member " << member << ": " << code;
  else
    EXPECT_EQ(code, lost_peer) << "member " << member;
}

/// FLOTILLA_NCCL_FAULTS=N[:SEED]: so many.
TEST(RandomFaults, EndInTimeAndAreNamed) {
  const char* wanted = std::getenv("FLOTILLA_NCCL_FAULTS");
  int cases = 6, seed = 1;
  if (wanted != nullptr) std::sscanf(wanted, "%d:%d", &cases, &seed);
  for (int i = 0; i < cases; ++i) {
    std::mt19937 random{static_cast<unsigned>(1000 * seed + i)};
    const Fault fault = random_fault(random);
    SCOPED_TRACE(text("fault ", i, " of seed ", seed, ": ", fault.words(), ", in ", fault.phase()));
    const auto start = std::chrono::steady_clock::now();
    const auto codes = run_until_it_comes(fault);
    for (int member = 0; member < members; ++member) expect_end(fault, member, codes[static_cast<std::size_t>(member)]);
    const double took = std::chrono::duration<double>{std::chrono::steady_clock::now() - start}.count();
    if (cases > 10)
      std::printf("%d %s in %s: %.1f s, members ended with %d %d %d\n", i, fault.words().c_str(), fault.phase().c_str(), took, codes[0],
                  codes[1], codes[2]);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace flotilla::nccl
