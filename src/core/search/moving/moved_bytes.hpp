#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "flotilla/base/units.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/planner.hpp"

/// What a change of plan costs: bytes that have to come to devices from elsewhere.
namespace flotilla::search {

/// What all devices of a plan have to be given when they hold nothing of it, as program::migrate gives it: for every parameter that a
/// device holds the fp32 weight and two moments of Adam. Where the optimizer is sharded (plan::Plan::shard_optimizer) the moments of its
/// share alone; in half precision the fp32 weights of its share, too, and those of the rest of its shard in half precision. Gradients do
/// not outlive a step, and copies of fp32 weights that are there are made anew. A table that embedding and head share counts once on a
/// device that holds both.
Bytes training_state(const plan::Plan&);

/// Bytes of training_state(next) that its devices do not hold already when they come from `previous`: the least over all ways to put
/// devices of `next` on devices of `previous` of the same type and zone, each on one at most, of what program::migrate moves then. A device
/// keeps those numbers of its layers and tensor shard that both plans give it; of moments that are sharded, those of its old share.
/// Devices are one like another: nodes are not looked at, nor ranks of bound plans (so shares are those of sums that are not made in
/// teams), and where a pool has shrunk the devices that are left are taken to be those that hold what is wanted. From 0 to
/// training_state(next). The work grows with the distinct (type, zone, stage, tensor index), not with devices. Where a plan shares its
/// optimizer out it is lowered, and every one of its devices is distinct: exact while a type and zone has up to 16,384 pairs of distinct
/// devices, old and new; beyond, replicas of a stage are taken to keep their order, and what they keep is the mean over some of them.
/// Throws Error{bad_input} where the two are plans for different models, Error{unavailable} for a plan with shares that cannot be lowered.
Bytes moved_bytes(const plan::Plan& previous, const plan::Plan& next);

/// Of the candidates whose value is at most (1 + share) x best_value the one with the least RankedPlan::moved; of those that move equally
/// much the better one, then the one with fewer devices, then the first. An index; nullopt where no candidate is near enough.
std::optional<std::size_t> choose_near_best(std::span<const RankedPlan> ranked_candidates, double best_value, double share);

}  // namespace flotilla::search
