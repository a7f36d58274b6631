#pragma once
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

/// Which steps of a class's blocks continue a chain: a run of instructions of one iteration, each of which starts at the very moment at
/// which the one before it ends, whatever the rest of the machine does. Such a run needs one start; its ends follow by addition.
///
/// A step continues the chain of the step before it when
/// - both are `local` (by instruction): they take their time without partners on other kinds of ranks;
/// - it follows the other at once on a one-at-a-time queue, or waits for it while its own queue is certainly idle by then;
/// - it waits for nothing else, save earlier members of the chain;
/// - they belong to the same microbatch, so that the chain has one length.
/// A chain that changes queues begins on the compute queue.
///
/// By block and step. Holds in every iteration of a block.
std::vector<std::vector<char>> continued_steps(const program::RankClass&, const std::vector<char>& local);

}  // namespace flotilla::simulate
