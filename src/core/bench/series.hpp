#pragma once
#include <vector>

#include "flotilla/bench/verdict.hpp"

namespace flotilla::bench {

/// Changes of what other programs measured, and of our own links alone and all-reduces: one for each series of both reports, of the same
/// program, quantity and hosts: the median over the points of both.
void compare_series(const BenchReport& before, const BenchReport& after, std::vector<Change>& changes);

}  // namespace flotilla::bench
