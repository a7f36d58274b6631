#pragma once
#include <optional>
#include <span>

#include "flotilla/monitor/self_check.hpp"

/// When a window of steps is over, and what its findings call for: functions of numbers.
namespace flotilla::monitor {

inline constexpr Seconds window_time{2};
inline constexpr int least_window = 5;  ///< steps

/// Steps of the next window: as many as take about that time, 5 to 1000. Of numbers that all ranks know alike.
int window_length(double iteration_seconds);

enum class WindowState {
  open,
  unsure,  ///< the first rank's clock decides, and all ask it: overdue()
  over
};
/// Of the steps alone, so the same on all ranks. A window is over after `length` steps; where a link becomes a hundred times slower these
/// would take minutes, so up to eight times before that all look at the clock.
WindowState window_state(int steps, int length);
/// Whether the steps so far took far more than a window's time.
bool overdue(Seconds took);

/// Whether planning again may be worth it: something has just been slow for three windows in a row, or is slow no longer.
bool calls_for_planning(std::span<const Slowness> slow_now, std::span<const Slowness> news);

/// Of what has changed the first group whose links should be looked at one by one: it became slow, and is on more than two hosts
/// (`hosts`: of its members); nothing where there is none.
template <class Hosts>
std::optional<Slowness> group_to_look_at(std::span<const Slowness> news, Hosts hosts) {
  for (const auto& slowness : news)
    if (slowness.group >= 0 && !slowness.over && hosts(slowness.members) > 2) return slowness;
  return std::nullopt;
}

}  // namespace flotilla::monitor
