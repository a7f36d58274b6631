#include "uplinks.hpp"

#include <algorithm>
#include <memory>

#include "concurrent_pairs.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "ping_pong.hpp"
#include "timed_all_gather.hpp"

namespace flotilla::probe {
namespace {

constexpr int first_channel = 2;     // of world.messages(): links have the two before
constexpr Bytes lead_in{128 << 10};  // what a shaped network lets through at once, and more

class UplinkMeasurement {
 public:
  UplinkMeasurement(const comm::World& world, const PairSet& pair_set, Seconds budget, Seconds deadline)
      : world_{world}, pair_set_{pair_set}, budget_{budget}, deadline_{deadline} {
    for (std::size_t p = 0; p < pair_set.pairs.size(); ++p)
      if (pair_set.pairs[p].first == world.rank() || pair_set.pairs[p].second == world.rank()) mine_ = static_cast<int>(p);
  }

  std::optional<BytesPerSecond> run() {
    const int all = static_cast<int>(pair_set_.pairs.size());
    turn(0, all, {pilot_size, 0}, true);  // connects them
    const double rate = turn(0, 1, {pilot_size, 1}, true).front();
    const Pace mine = pace_of(pilot_size / BytesPerSecond{rate}, pair_set_.pairs.size(), budget_);
    const Pace pace = mpi::broadcast_value(world_.control(), mine, 0, deadline_);
    std::vector<PairSetRound> rounds(static_cast<std::size_t>(pace.rounds));
    bool outwards = true;
    for (auto& round : rounds) {
      for (int p = 0; p < pace.alone; ++p) round.alone.push_back(turn(p, p + 1, pace, outwards).front());
      round.together = turn(0, pace.pairs, pace, outwards);
      outwards = !outwards;
    }
    return shared_rate(rounds);
  }

 private:
  /// Pairs [first, last) at once, out of the zone or into it -> the rate of each. An error of anybody's is everybody's.
  std::vector<double> turn(int first, int last, const Pace& pace, bool outwards) {
    comm::PhaseOutcome outcome;
    Seconds took;
    if (first <= mine_ && mine_ < last) outcome = comm::outcome_of("measuring an uplink", [&] { took = pass(pace, outwards); });
    const auto answers = timed_all_gather(world_, outcome, took.value, 2 * deadline_ + 10 * budget_, deadline_);
    if (!std::ranges::all_of(answers, &Answer::well)) comm::agree(world_, outcome, deadline_);
    std::vector<double> rates;
    const double bytes = static_cast<double>(pace.size.count) * pace.messages;
    for (int p = first; p < last; ++p) {
      const auto& [a, b] = pair_set_.pairs[static_cast<std::size_t>(p)];
      rates.push_back(bytes / std::max({answers[a.index()].number, answers[b.index()].number, 1e-9}));
    }
    return rates;
  }

  Seconds pass(const Pace& pace, bool outwards) {
    const auto& [inside, outside] = pair_set_.pairs[static_cast<std::size_t>(mine_)];
    const bool sends = (inside == world_.rank()) == outwards;
    if (!end_) end_ = std::make_unique<LinkEnd>(world_, inside == world_.rank() ? outside : inside, first_channel, nullptr, deadline_);
    const auto one = [&](Bytes size) { sends ? end_->send(size) : end_->receive(size); };
    fill_pattern(std::span{end_->out}.first(static_cast<std::size_t>(pace.size.count)), mine_);  // what is sent, or should have come
    one(lead_in);
    const Seconds start = now();
    for (int m = 0; m < pace.messages; ++m) one(pace.size);
    const Seconds took = now() - start;
    const bool whole = sends || pace.messages == 0 || std::equal(end_->in.begin(), end_->in.begin() + pace.size.count, end_->out.begin());
    FLOTILLA_REQUIRE(whole, ErrorKind::communication, end_->peer_name(), ": a message of ", pace.size,
                     " came changed; the network or its driver corrupts data");
    return took;
  }

  const comm::World& world_;
  const PairSet& pair_set_;
  Seconds budget_, deadline_;
  int mine_ = -1;  ///< the pair in which this rank stands
  std::unique_ptr<LinkEnd> end_;
};

}  // namespace

std::vector<cluster::Uplink> measure_uplinks(const comm::World& world, const std::vector<cluster::Device>& devices, Seconds budget,
                                             Seconds deadline) {
  const auto all = pair_sets(devices);
  std::vector<cluster::Uplink> uplinks;
  for (const PairSet& pair_set : all) {
    const auto rate = UplinkMeasurement{world, pair_set, budget / static_cast<double>(all.size()), deadline}.run();
    if (!rate) continue;
    for (const auto& zone : pair_set.zones) uplinks.push_back({zone, *rate});
  }
  if (!all.empty()) comm::agree(world, {}, deadline);
  return uplinks;
}

}  // namespace flotilla::probe
