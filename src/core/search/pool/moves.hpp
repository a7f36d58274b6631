#pragma once
#include <functional>

#include "sketch.hpp"

namespace flotilla::search::pool {

/// Small changes of a sketch, one after the other in a fixed order: a cut moved by a layer, a stage that recomputes less, a microbatch
/// doubled or halved (where the batch is dealt level: one more or one fewer in a share), a kind of column taken away, made fewer, or more
/// where the room allows; a zone given up for another; where `levels`, the batch dealt level. `visit` returns true to take the change and
/// end.
bool for_each_move(const Sketch&, const Stock&, bool levels, const std::function<bool(Sketch&&)>& visit);

/// The sketch under another schedule, in other chunks, with tokens or the optimizer sharded or whole: one after the other.
void for_each_execution(const Sketch&, const Stock&, bool may_shard, const std::function<void(Sketch&&)>& visit);
/// What lets larger microbatches fit and smaller ones do without: one stage or all recompute more, also with larger microbatches; half as
/// many columns of groups of twice the size, or the other way round.
void for_each_trade(const Sketch&, const Stock&, const std::function<void(Sketch&&)>& visit);

}  // namespace flotilla::search::pool
