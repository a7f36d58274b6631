#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "flotilla/base/units.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/pool_planner.hpp"

/// What a change of plan costs: bytes that have to come to devices from elsewhere.
namespace flotilla::search {

/// Training state that all devices of a plan hold together, copies counted: for every parameter that a device holds the fp32 weight, two
/// moments of Adam and, in half precision, the copy that matrices are multiplied with. Gradients do not outlive a step. A table that
/// embedding and head share counts once on a device that holds both.
Bytes training_state(const plan::Plan&);

/// Bytes of training_state(next) that its devices do not hold already when they come from `previous`: the least over all ways to put
/// devices of `next` on devices of `previous` of the same type and zone, each on one at most; a device keeps those elements of its layers
/// and tensor shard that both plans give it. Devices are one like another: nodes are not looked at, nor ranks of bound plans, and where a
/// pool has shrunk the devices that are left are taken to be those that hold what is wanted. From 0 to training_state(next).
/// The work grows with the distinct (type, zone, stage, tensor index), not with devices.
/// Throws Error{bad_input} where the two are plans for different models.
Bytes moved_bytes(const plan::Plan& previous, const plan::Plan& next);

/// Of the candidates whose value is at most (1 + share) x best_value the one with the least PooledPlan::moved; of those that move equally
/// much the better one, then the one with fewer devices, then the first. An index; nullopt where no candidate is near enough.
std::optional<std::size_t> choose_near_best(std::span<const PooledPlan> candidates, double best_value, double share);

}  // namespace flotilla::search
