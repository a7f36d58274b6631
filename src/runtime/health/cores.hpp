#pragma once
#include <vector>

#include "flotilla/bench/report.hpp"

namespace flotilla::health {

/// Binds the calling thread to a hardware thread. Throws Error{unavailable}.
void stay_on(int cpu);

/// The known-answer step on each of these hardware threads, by a thread that stays there, all at once and over and over for about `budget`.
/// Throws what a step throws, and Error{unavailable} where a thread cannot be bound.
std::vector<bench::Core> test_cores(const std::vector<int>& cpus, Seconds budget);

}  // namespace flotilla::health
