#pragma once
#include <compare>
#include <vector>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::program {

/// Ranks that sum gradients of the same parameters: one member of every replica that holds them, by its index in its tensor-parallel
/// group.
using GradientGroup = std::vector<int>;

/// Those degrees, each once, in the order in which they come first.
std::vector<int> unlike(const std::vector<int>& degrees);

/// The fewest groups over which replicas of these tensor degrees can sum the gradients of these tensors: cut along its
/// logical axis where any of the degrees cuts, every piece of a tensor has one holder in each replica. Tensors that every member holds
/// whole are summed in each of the groups, to the same bits: replicas are added in one order. Equal degrees d give the d groups of equal
/// index. Ordered.
std::vector<GradientGroup> gradient_groups(const std::vector<model::Tensor>&, const std::vector<int>& tensors,
                                           const std::vector<int>& degrees);

/// What a member adds in the sum over one such group: the part of its shard that all of them hold, as blocks of the part's elements.
/// `replica`: its own place in `degrees`. Replicas of one degree have equal members in a group, so degrees may be given once.
std::vector<Region> shared_regions(const std::vector<model::Tensor>&, const Part&, const std::vector<int>& degrees, const GradientGroup&,
                                   int replica);

}  // namespace flotilla::program
