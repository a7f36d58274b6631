#pragma once
#include <vector>

#include "flotilla/bench/verdict.hpp"

namespace flotilla::bench {

/// What hours at work say of a node, if it has had them.
void judge_soak(const NodeReport&, std::vector<Reason>&);

}  // namespace flotilla::bench
