#pragma once
#include <optional>

#include "sketch.hpp"

namespace flotilla::search::pool {

/// A plan that ran before as a sketch, without the columns for which the pool has no devices any more; nothing where it is not made of
/// columns with microbatches of sizes that are searched, or where no column is left.
std::optional<Sketch> revive(const plan::Plan&, const Stock&);

}  // namespace flotilla::search::pool
