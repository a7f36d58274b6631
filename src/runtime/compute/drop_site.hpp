#pragma once
#include <cstdint>

namespace flotilla::compute {

/// Where a block drops values. Each site has random numbers of its own, which are the same on every device.
enum class DropSite : std::uint64_t { embedding, attention_probabilities, attention_output, feed_forward };

}  // namespace flotilla::compute
