#include "interference.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/persistent_operation.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "flotilla/probe/known_step.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

constexpr Bytes message{128 << 10};  // activations of a small microbatch
constexpr int channel = 0;           // of world.messages(), which nobody else uses before training
constexpr int rounds = 5;
constexpr double alone = 0.35, beside = 0.5, resting = 0.15;  // parts of a round

/// Messages to and fro by a thread that polls as the trainer's does, until the end that asks has had enough.
class Exchange {
 public:
  Exchange(const comm::World& world, Rank peer, Seconds deadline)
      : asks_{world.rank() < peer},
        deadline_{deadline},
        out_(static_cast<std::size_t>(message.count)),
        in_(out_.size()),
        send_{comm::make_send(world, peer, channel, out_.data(), message)},
        receive_{comm::make_receive(world, peer, channel, in_.data(), message)} {}

  bool asks() const { return asks_; }

  /// Calls `meanwhile` again and again, for so long, or on the other end until this one has had enough. Seconds of a message one way, on
  /// the end that asks; on the other, what the first told: `note`.
  template <class Meanwhile>
  double run(Seconds length, double note, Meanwhile meanwhile) {
    enough_ = ended_ = false;
    error_ = nullptr;
    std::jthread thread{[&] { move(note); }};
    const Seconds end = now() + length;
    try {
      while (asks_ ? now() < end : !ended_) meanwhile();
    } catch (...) {
      enough_ = true;  // the thread ends by its deadline at the latest
      throw;
    }
    enough_ = true;
    thread.join();
    if (error_) std::rethrow_exception(error_);
    return asks_ ? mean(times_) : told_;
  }

 private:
  struct Head {
    double note = 0;
    int last = 0;
  };

  void move(double note) {
    times_.clear();
    try {
      for (bool last = false; !last;) {
        receive_->start(message);
        const Seconds start = now();
        if (asks_) {
          last = enough_;
          put({note, last ? 1 : 0});
          finish({send_.get(), receive_.get()});
          times_.push_back((now() - start).value / 2);
        } else {
          finish({receive_.get()});
          Head head;
          std::memcpy(&head, in_.data(), sizeof head);
          told_ = head.note, last = head.last != 0;
          put(head);
          finish({send_.get()});
        }
      }
    } catch (...) {
      error_ = std::current_exception();
    }
    ended_ = true;
  }

  void put(const Head& head) {
    std::memcpy(out_.data(), &head, sizeof head);
    send_->start(message);
  }

  void finish(std::initializer_list<comm::PersistentOperation*> operations) {
    const Seconds end = now() + deadline_;
    mpi::Backoff backoff;
    const auto done = [&] {
      bool all = true;
      for (auto* operation : operations) all = operation->progress() && all;
      return all;
    };
    while (!done()) {
      FLOTILLA_REQUIRE(now() < end, ErrorKind::communication, receive_->describe(), ": no end within ", deadline_,
                       "; its other end or the network is down");
      backoff.pause();
    }
  }

  const bool asks_;
  const Seconds deadline_;
  std::vector<std::byte> out_, in_;
  std::unique_ptr<comm::PersistentOperation> send_, receive_;
  std::atomic<bool> enough_{false}, ended_{false};
  std::exception_ptr error_;
  std::vector<double> times_;
  double told_ = 0;
};

cluster::Interference interference_with(Exchange& exchange, int threads, Seconds budget) {
  KnownStep step{Precision::fp32, threads};
  step.run();  // it makes the library's primitives
  const Seconds round = budget / rounds;
  std::vector<double> shares, delays;
  for (int r = 0; r < rounds; ++r) {
    std::vector<double> by_itself, in_company;
    for (const Seconds end = now() + alone * round; now() < end;) by_itself.push_back(step.run().wall.value);
    const double computing = exchange.run(beside * round, 0, [&] { in_company.push_back(step.run().wall.value); });
    const double waiting = exchange.run(resting * round, 0, [&] { std::this_thread::sleep_for(std::chrono::milliseconds{1}); });
    if (!by_itself.empty() && !in_company.empty()) shares.push_back(1 - mean(by_itself) / mean(in_company));
    delays.push_back(computing - waiting);
  }
  const double share = shares.empty() ? 0 : std::clamp(median(shares), 0.0, 1.0), delay = std::max(0.0, median(delays));
  const double told = exchange.run(Seconds{}, delay, [] { std::this_thread::yield(); });
  return {share, {exchange.asks() ? delay : told}};
}

/// The other of two neighbours among those that can measure it.
std::optional<Rank> partner_of(Rank me, const Discovery& here) {
  std::vector<Rank> all;
  for (std::size_t r = 0; r < here.devices.size(); ++r)
    if (here.gpus[r].empty() && here.crowded[r] == 0) all.push_back(here.devices[r].rank);
  const auto mine = std::ranges::find(all, me);
  if (mine == all.end()) return {};
  const auto other = static_cast<std::size_t>(mine - all.begin()) ^ std::size_t{1};
  return other < all.size() ? std::optional{all[other]} : std::nullopt;
}

}  // namespace

cluster::Interference measure_interference(const comm::World& world, const Discovery& here, Seconds budget, Seconds deadline) {
  return comm::agree_on(
      world, "measuring what exchanges and computing take from each other",
      [&]() -> cluster::Interference {
        const auto partner = partner_of(world.rank(), here);
        if (!partner) return {};
        Exchange exchange{world, *partner, deadline};
        return interference_with(exchange, here.devices[world.rank().index()].threads, budget);
      },
      2 * deadline + 10 * budget);
}

}  // namespace flotilla::probe
