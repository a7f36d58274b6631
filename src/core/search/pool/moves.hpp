#pragma once
#include <functional>

#include "candidate_plan.hpp"

namespace flotilla::search::pool {

/// Small changes of a candidate, one after the other in a fixed order: a cut moved by a layer, a stage that recomputes less, a microbatch
/// doubled or halved (where the batch is balanced: one more or one fewer in a share), a kind of column taken away, made fewer, or more
/// where the room allows; a zone given up for another; where `balances`, the batch balanced. `visit` returns true to take the change and
/// end.
bool for_each_move(const CandidatePlan&, const DevicePool&, bool balances, const std::function<bool(CandidatePlan&&)>& visit);

/// The candidate under another schedule, in other chunks, with tokens or the optimizer sharded or whole: one after the other.
void for_each_execution(const CandidatePlan&, const DevicePool&, bool may_shard, const std::function<void(CandidatePlan&&)>& visit);
/// What lets larger microbatches fit and smaller ones do without: one stage or all recompute more, also with larger microbatches; half as
/// many columns of groups of twice the size, or the other way round.
void for_each_trade(const CandidatePlan&, const DevicePool&, const std::function<void(CandidatePlan&&)>& visit);

}  // namespace flotilla::search::pool
