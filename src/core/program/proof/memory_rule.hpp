#pragma once
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::program {

/// The memory rule for one rank of a class: two accesses of one byte of which one writes are ordered by queue order and waits, and what is
/// read is what was last written for that buffer and microbatch. At most a few violations are reported.
std::vector<Violation> check_memory(const RankClass&, const std::vector<IssuedInstruction>&);

}  // namespace flotilla::program
