#pragma once
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

inline constexpr int heavily_oversubscribed = 1000;  // flows a lane, or through an uplink: nothing but the bytes counts any more

/// Of `time(Flows)` what one message, or group, at full rate keeps a lane of a host's cards busy.
template <class Time>
double card_seconds(Time time, int lanes) {
  const int crowd = heavily_oversubscribed * lanes;
  return (time(Flows{2 * crowd, 0, 0}) - time(Flows{crowd, 0, 0})).value / heavily_oversubscribed;
}

/// What one keeps an uplink busy: of those that leave by it (1, 0), of those that enter by it (0, 1).
template <class Time>
double uplink_seconds(Time time, int out, int in) {
  const auto crowd = [&](int times) { return time(Flows{1, times * heavily_oversubscribed * out, times * heavily_oversubscribed * in}); };
  return (crowd(2) - crowd(1)).value / heavily_oversubscribed;
}

}  // namespace flotilla::simulate
