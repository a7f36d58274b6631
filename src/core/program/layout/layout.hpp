#pragma once
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::program {

/// Gives every buffer its offset and the class its arena. `phases`: the compute instructions of each, which run one after the other. Two
/// temporaries share memory where the compute queue alone touches them and their lives within a microbatch never meet: queue order is then
/// the ordering edge. Everything else has memory of its own.
void lay_out(RankClass&, const std::vector<const std::vector<int>*>& phases);

}  // namespace flotilla::program
