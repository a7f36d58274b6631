#include "flotilla/signals/stop_signals.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "flotilla/base/error.hpp"

namespace flotilla::signals {
namespace {

// What the handler may touch: lock-free atomics. `first` is written last, so whoever sees it sees the time.
std::atomic<bool> installed{false};
std::atomic<int> first{0};
std::atomic<int> total{0};
std::atomic<std::int64_t> first_ns{0};
std::array<std::atomic<std::int64_t>, NSIG> first_of_number{};  // nanoseconds; 0: has not come
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

extern "C" void remember(int number) {
  const int saved = errno;
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);  // what std::chrono::steady_clock reads
  const std::int64_t ns = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  std::int64_t none = 0;
  first_of_number[static_cast<std::size_t>(number)].compare_exchange_strong(none, ns);
  if (total.fetch_add(1) == 0) {
    first_ns.store(ns);
    first.store(number);
  }
  errno = saved;
}

void ignore(int number) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigaction(number, &action, nullptr);
}

/// By nohup, and for good. Batch scripts ignore SIGTERM for themselves only.
bool stays_ignored(int number) {
  struct sigaction before {};
  return number == SIGHUP && sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
}

}  // namespace

std::string signal_name(int number) {
  switch (number) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGHUP: return "SIGHUP";
    case SIGUSR1: return "SIGUSR1";
    case SIGUSR2: return "SIGUSR2";
    case SIGXCPU: return "SIGXCPU";
    default: return text("signal ", number);
  }
}

void ignore_broken_pipes() noexcept { ignore(SIGPIPE); }
void ignore_file_size_limits() noexcept { ignore(SIGXFSZ); }

void refuse_if_stopped() {
  if (installed.load(std::memory_order_relaxed) && first.load(std::memory_order_relaxed) != 0)
    throw Stopped{signal_name(first.load()) + ": stopped"};
}

StopSignals::StopSignals(const std::vector<int>& signals) {
  FLOTILLA_REQUIRE(!installed.exchange(true), ErrorKind::internal, "stop signals are already being handled in this process");
  clear();
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;  // a stop request is no reason for a read or write to fail
  sigemptyset(&action.sa_mask);
  for (const int number : signals) {
    if (stays_ignored(number)) continue;
    Old old{number, {}};
    if (sigaction(number, &action, &old.action) != 0) {
      restore();
      throw Error{ErrorKind::internal, text(signal_name(number), " cannot be handled")};
    }
    old_.push_back(old);
  }
}

StopSignals::~StopSignals() { restore(); }

void StopSignals::restore() noexcept {
  for (Old& old : old_) {
    if (ignored_) old.action.sa_handler = SIG_IGN;
    sigaction(old.number, &old.action, nullptr);
  }
  installed.store(false);
}

std::optional<StopSignal> StopSignals::received() const noexcept {
  const int number = first.load();
  if (number == 0) return std::nullopt;
  return StopSignal{number, {static_cast<double>(first_ns.load()) * 1e-9}};
}

std::optional<StopSignal> StopSignals::received(int number) const noexcept {
  const auto ns = number > 0 && number < NSIG ? first_of_number[static_cast<std::size_t>(number)].load() : 0;
  if (ns == 0) return std::nullopt;
  return StopSignal{number, {static_cast<double>(ns) * 1e-9}};
}

int StopSignals::count() const noexcept { return total.load(); }

void StopSignals::clear() noexcept {
  first.store(0);
  total.store(0);
  for (auto& ns : first_of_number) ns.store(0);
}

}  // namespace flotilla::signals
