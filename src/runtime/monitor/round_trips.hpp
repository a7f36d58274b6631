#pragma once
#include <functional>
#include <vector>

#include "flotilla/comm/world.hpp"

namespace flotilla::monitor {

inline constexpr Bytes round_trip_message{1 << 20};  ///< there, and as much back

/// Seconds of the fastest of a few round trips between each two of `ends`, ranks of the active ranks on hosts of their own: a square of
/// ends.size() rows, symmetric, the same on all ranks. Each is in one exchange at a time; a pair takes 20 ms or three round trips, and no
/// second one after a second. Collective over the active ranks, on the thread that agrees, while no step is under way. Throws
/// Error{communication} when `deadline` passes without an answer. `before_answer` is called with the other end before each answer.
std::vector<double> round_trips(const comm::World& active, const std::vector<Rank>& ends, Seconds deadline,
                                const std::function<void(Rank)>& before_answer = {});

}  // namespace flotilla::monitor
