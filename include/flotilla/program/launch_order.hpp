#pragma once
#include <functional>
#include <map>
#include <vector>

#include "flotilla/program/program.hpp"

/// The order in which a device's library is given its operations. A library like NCCL has no tags, and a device may run its operations one
/// at a time: two ranks that launch the operations of two groups in unlike orders wait for each other for ever. The program numbers what is
/// launched, over all ranks: one event after the other, each when everything that it waits for can have happened. Every rank launches its
/// own in the order of these numbers.
namespace flotilla::program {

/// Whether a rank leaves this instruction, a message or collective, to the library. The same for all who take part in it.
using IsLaunched = std::function<bool(Rank, const Instruction&)>;

/// By rank: places in expand(), in the order of launching.
using LaunchOrder = std::map<int, std::vector<int>>;

/// Pure, the same on every rank. `program` has passed validate(). Time and memory grow with the instructions of all ranks.
LaunchOrder number_launches(const Program& program, const IsLaunched& launched);

/// Proof that ranks whose devices run their launches one at a time, in this order, come to their end: empty, or one
/// Violation::Rule::group_order that names an instruction which would never end.
std::vector<Violation> validate_launches(const Program& program, const IsLaunched& launched, const LaunchOrder& order);

}  // namespace flotilla::program
