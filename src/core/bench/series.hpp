#pragma once
#include <vector>

#include "flotilla/bench/verdict.hpp"

namespace flotilla::bench {

/// A change for each series of both, of the same program, quantity and hosts: the median over the points of both.
void compare_series(const std::vector<Series>& before, const std::vector<Series>& after, std::vector<Change>& changes);

}  // namespace flotilla::bench
