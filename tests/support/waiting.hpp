#pragma once
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "flotilla/base/units.hpp"

/// How tests wait: for conditions. No time here decides whether something is fast enough; each only ends what hangs.
namespace flotilla::tests {

/// What a bug may let hang is given up after this. One value for all tests.
constexpr Seconds hang_bound() { return {1800}; }
/// The same before, where nothing moves.
constexpr Seconds standstill_bound() { return {600}; }
/// hang_bound() as an option of the program.
constexpr const char* hang_bound_option() { return "30min"; }

/// Waits until `condition` holds. False when `progress` (steps, bytes, processor time) has stood still for ten minutes, or after
/// hang_bound(): a rank that waits in MPI uses processor time for ever.
template <class Condition, class Progress>
bool until(Condition condition, Progress progress, std::chrono::milliseconds pause = std::chrono::milliseconds{10},
           Seconds standstill = standstill_bound()) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Seconds time) { return std::chrono::duration<double>{time.value}; };
  constexpr std::chrono::seconds between_looks{1};  // a look at progress may cost more than one at the condition
  const auto begin = Clock::now();
  auto moved = begin, looked = begin;
  auto last = progress();
  for (; !condition(); std::this_thread::sleep_for(pause)) {
    const auto time = Clock::now();
    if (time - looked > between_looks) {
      looked = time;
      if (auto here = progress(); here != last) last = here, moved = time;
    }
    if (time - moved > seconds(standstill) || time - begin > seconds(hang_bound())) return false;
  }
  return true;
}

/// Where nothing shows progress.
template <class Condition>
bool until(Condition condition, std::chrono::milliseconds pause = std::chrono::milliseconds{10}) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>{hang_bound().value};
  for (; !condition(); std::this_thread::sleep_for(pause))
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

/// Where a deadline has to expire for a rank that is silent on purpose: on a busy machine one that lives may be missed first. Then `run`
/// is repeated with a longer deadline. Returns the first result of which `live_rank_named` is false, or the last one, which counts.
template <class Run, class Named>
auto with_deadlines(Run run, Named live_rank_named, const std::vector<Seconds>& deadlines = {{6}, {24}, {96}}) {
  auto result = run(deadlines.front());
  for (auto next = deadlines.begin() + 1; next != deadlines.end() && live_rank_named(result); ++next) result = run(*next);
  return result;
}

}  // namespace flotilla::tests
