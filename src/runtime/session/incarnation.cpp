#include "flotilla/session/incarnation.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/fail_world.hpp"
#include "flotilla/journal/outcome.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::session {
namespace {

std::string random_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  FLOTILLA_REQUIRE(::getrandom(bytes.data(), size, 0) == static_cast<ssize_t>(size), ErrorKind::unavailable,
                   "the system gives no random numbers: ", std::strerror(errno));
  return bytes;
}

}  // namespace

Incarnation::Incarnation(const comm::World& world, const RunConfig& config, std::string job)
    : world_{world}, deadline_{config.comm.deadline}, job_{std::move(job)} {
  signals::ignore_broken_pipes();  // who reads our output may go; the run stays
  comm::agree_on(
      world, "opening the run directory",
      [&] {
        if (world.rank() != Rank{0}) return;
        journal::LockOptions options;
        options.job = job_;
        lock_.emplace(journal::RunDirectory::open(config.run.directory, options));
      },
      deadline_);
  const auto shared = [&](const std::string& text) { return mpi::broadcast_string(world.control(), text, 0, deadline_); };
  run_ = shared(lock_ ? lock_->path().string() : "");
  incarnation_ = std::stoi(shared(lock_ ? std::to_string(lock_->incarnation()) : ""));
  comm::Secret secret{};
  const auto made = shared(lock_ ? random_bytes(secret.size()) : "");
  std::ranges::copy(made, secret.begin());
  // On the watch's thread: the main thread may be stuck in a step that will never end.
  const auto on_trouble =
      comm::end_world_on_trouble(world, [this](const comm::LastWords& words) { write_outcome(words.code, words.line); });
  watch_ = std::make_unique<comm::Watch>(world, comm::WatchOptions{config.watch.interval, config.watch.deadline, secret}, on_trouble);
  start_ = std::make_unique<StartProgress>(world, *watch_);
}

std::optional<std::string> Incarnation::stop_wanted() {
  if (const auto signal = signals_.received()) return signals::signal_name(signal->number) + " on " + world_.name(world_.rank());
  if (const auto request = watch_->stop_requested()) return request->reason;
  return std::nullopt;
}

void Incarnation::relay_signals() {
  relay_urgent_signals();
  if (!signals_.received() || relayed_.exchange(true)) return;
  watch_->request_stop(signals::signal_name(signals_.received()->number) + " on " + world_.name(world_.rank()));
}

std::optional<signals::StopSignal> Incarnation::urgent_signal() const {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGXCPU})
    if (const auto signal = signals_.received(number)) return signal;
  return std::nullopt;
}

void Incarnation::relay_urgent_signals() {
  const auto signal = urgent_signal();
  if (!signal || relayed_urgent_.exchange(true)) return;
  watch_->request_stop(signals::signal_name(signal->number) + " on " + world_.name(world_.rank()), true);
}

std::optional<Seconds> Incarnation::urgent_since() {
  if (const auto signal = urgent_signal()) return signal->when;
  if (!heard_urgent_)
    if (const auto request = watch_->stop_requested(); request && request->urgent) heard_urgent_ = now();
  return heard_urgent_;
}

void Incarnation::require_lock() const {
  if (lock_) lock_->require_mine();
}

void Incarnation::write_outcome(ExitCode code, const std::string& reason, bool temporary) noexcept {
  journal::Outcome outcome;
  outcome.incarnation = incarnation_;
  outcome.rank = world_.rank().value;
  outcome.exit_code = code;
  outcome.reason = reason;
  outcome.step = step_;
  outcome.temporary = temporary;
  try {
    outcome.host = world_.host(world_.rank());
  } catch (...) {
  }
  journal::write_outcome(run_, std::move(outcome));
}

void Incarnation::close() {
  signals_.ignore_hereafter();
  watch_->close(deadline_);
  if (lock_) lock_->release();
}

}  // namespace flotilla::session
