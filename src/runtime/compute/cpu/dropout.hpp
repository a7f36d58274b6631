#pragma once
#include "flotilla/compute/backend.hpp"
#include "kernels.hpp"

namespace flotilla::compute::cpu {

enum class DropSite : std::uint64_t { embedding, attention_probabilities, attention_output, feed_forward };

/// The dropout of one site in one step; off when not training.
Dropout dropout(const Setup&, const Task&, DropSite);

}  // namespace flotilla::compute::cpu
