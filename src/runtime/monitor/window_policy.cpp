#include "window_policy.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::monitor {
namespace {

constexpr int windows_to_last = 3;    // slow for so many windows in a row: planning again may be worth it
constexpr int looks_in_a_window = 8;  // whether it is overdue
constexpr double far_more = 1.5;      // times the time that it should take

}  // namespace

int window_length(double iteration_seconds) {
  if (!(iteration_seconds > 0)) return least_window;
  return static_cast<int>(std::clamp(std::ceil(window_time.value / iteration_seconds), double{least_window}, 1000.0));
}

WindowState window_state(int steps, int length) {
  if (steps >= length) return WindowState::over;
  const bool looks = steps >= least_window && steps % std::max(1, length / looks_in_a_window) == 0;
  return looks ? WindowState::unsure : WindowState::open;
}

bool overdue(Seconds took) { return took >= window_time * far_more; }

bool calls_for_planning(std::span<const Slowness> slow_now, std::span<const Slowness> news) {
  const auto lasts = [](const Slowness& s) { return s.windows == windows_to_last; };
  return std::ranges::any_of(slow_now, lasts) || std::ranges::any_of(news, &Slowness::over);
}

}  // namespace flotilla::monitor
