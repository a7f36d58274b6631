#include "round_trips.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "flotilla/base/clock.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "group_links.hpp"

namespace flotilla::monitor {
namespace {

constexpr int trip_tag = 0x4000;  // above those of agreements, which talk on this channel, too
constexpr int least_trips = 3;
constexpr Seconds enough{0.02}, too_long{1};
constexpr std::byte another_follows{0}, last_one{1};

using Message = std::array<std::byte, round_trip_message.count>;

class RoundTrip {
 public:
  RoundTrip(const comm::World& active, Seconds deadline, const std::function<void(Rank)>& before_answer)
      : active_{active}, deadline_{deadline}, before_answer_{before_answer} {}

  /// The fastest round trip.
  double lead(Rank peer) {
    greet(peer);
    double fastest = 0;
    Seconds all{};
    for (int trip = 1;; ++trip) {
      const Seconds begin = now();
      swap(peer, out_, in_);
      const Seconds took = now() - begin;
      fastest = trip == 1 ? took.value : std::min(fastest, took.value);
      all = all + took;
      const bool is_last = (trip >= least_trips && all >= enough) || all >= too_long;
      word_ = is_last ? last_one : another_follows;
      send(peer, {&word_, 1});
      if (is_last) return fastest;
    }
  }

  void answer(Rank peer) {
    greet(peer);
    for (word_ = another_follows; word_ == another_follows;) {
      receive(peer, in_);
      if (before_answer_) before_answer_(peer);
      send(peer, out_);
      receive(peer, {&word_, 1});
    }
  }

 private:
  /// Both are there.
  void greet(Rank peer) { swap(peer, std::span{out_}.first(1), std::span{in_}.first(1)); }

  void swap(Rank peer, std::span<const std::byte> out, std::span<std::byte> in) {
    auto answer = active_.control().receive(in, peer.value, trip_tag);
    send(peer, out);
    mpi::wait(answer, deadline_, "the answer of a round trip");
  }
  void send(Rank peer, std::span<const std::byte> data) {
    auto message = active_.control().send(data, peer.value, trip_tag);
    mpi::wait(message, deadline_, "sending a round trip's message");
  }
  void receive(Rank peer, std::span<std::byte> data) {
    auto message = active_.control().receive(data, peer.value, trip_tag);
    mpi::wait(message, deadline_, "receiving a round trip's message");
  }

  const comm::World& active_;
  const Seconds deadline_;
  const std::function<void(Rank)>& before_answer_;
  Message out_{}, in_{};
  std::byte word_ = another_follows;  ///< whether another trip follows
};

/// Of this end, to those that it led.
std::vector<double> exchanged(RoundTrip& exchange, const std::vector<Rank>& ends, int me) {
  std::vector<double> seconds(ends.size(), 0);
  for (const auto& round : rounds_of_pairs(static_cast<int>(ends.size())))
    for (const auto& [lower, higher] : round) {
      const auto at = [&](int end) { return static_cast<std::size_t>(end); };
      if (lower == me) seconds[at(higher)] = exchange.lead(ends[at(higher)]);
      if (higher == me) exchange.answer(ends[at(lower)]);
    }
  return seconds;
}

}  // namespace

std::vector<double> round_trips(const comm::World& active, const std::vector<Rank>& ends, Seconds deadline,
                                const std::function<void(Rank)>& before_answer) {
  const std::size_t count = ends.size();
  const auto me = std::ranges::find(ends, active.rank()) - ends.begin();
  std::vector<double> mine(count, 0);
  if (me < static_cast<std::ptrdiff_t>(count)) {
    auto exchange = std::make_unique<RoundTrip>(active, deadline, before_answer);
    try {
      mine = exchanged(*exchange, ends, static_cast<int>(me));
    } catch (...) {
      static_cast<void>(exchange.release());  // a send that cannot be withdrawn goes on reading its buffer, and the job ends then
      throw;
    }
  }
  const auto bytes = mpi::all_gather_bytes(active.control(), std::as_bytes(std::span{mine}), deadline);
  std::vector<double> all(static_cast<std::size_t>(active.size()) * count), square(count * count, 0);
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span{all}).begin());
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = a + 1; b < count; ++b) square[a * count + b] = square[b * count + a] = all[ends[a].index() * count + b];
  return square;
}

}  // namespace flotilla::monitor
