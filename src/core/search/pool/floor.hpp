#pragma once
#include "soundings.hpp"

namespace flotilla::search::pool {

/// The objective's value that no plan of the space is below: every sequence passes every layer on some device, and what a type's devices
/// do for a layer takes at least its best degree's and microbatch's device-seconds.
///   throughput: the least T with sum over types of what they can take in T at most covering the batch, layer shared out as they like;
///   the others: the cheapest device-seconds of every layer.
double floor_of_value(const Stock&, Soundings&, const std::vector<int>& microbatches);

}  // namespace flotilla::search::pool
