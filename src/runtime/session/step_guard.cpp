#include "step_guard.hpp"

#include "flotilla/base/clock.hpp"
#include "flotilla/base/interruptible_sleep.hpp"

namespace flotilla::session {
namespace {

constexpr Seconds pause{0.020};

}  // namespace

StepGuard::StepGuard(Surroundings around, bool decides, Seconds grace, std::optional<Seconds> ends)
    : around_{std::move(around)}, decides_{decides}, ends_{ends} {
  hand_.grace = grace;
  thread_ = std::jthread{[this](std::stop_token stop) {
    for (; !stop.stop_requested(); interruptible_sleep(stop, pause)) look();
  }};
}

void StepGuard::begin(std::int64_t step, const TimeLeft& known, bool stops) {
  const std::lock_guard lock{mutex_};
  hand_.began = now();
  hand_.step = known.step;
  hand_.save = known.save;
  stops_ = stops;
  step_ = step;
}

void StepGuard::end() {
  const std::lock_guard lock{mutex_};
  step_ = -1;
}

void StepGuard::look() {
  around_.relay_urgent_signals();
  if (!decides_) return;
  const std::lock_guard lock{mutex_};
  if (step_ < 0) return;
  hand_.told = around_.urgent_since();
  stops_ = stops_ || around_.stop_wanted();
  hand_.ends = stops_ ? ends_ : std::nullopt;
  if (hand_.too_long(now())) around_.give_up(step_);
}

}  // namespace flotilla::session
