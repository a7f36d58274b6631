#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::train {

/// Fills a shard with the tensor's initial values: a pure function of (seed, tensor name, global element index), so the same model starts
/// from the same bits under every plan.
void initialize(const model::Config&, const model::Tensor&, const plan::Shard&, std::uint64_t seed, std::span<float> values);
/// The same for some of its elements, those of the boxes.
void initialize(const model::Config&, const model::Tensor&, const std::vector<plan::Box>&, std::uint64_t seed, std::span<float> values);

}  // namespace flotilla::train
