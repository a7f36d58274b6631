#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "flotilla/comm/process_group.hpp"

namespace flotilla::comm {

/// Summed in one progress() at most, so that the thread which also moves everybody else's messages gets back to them.
inline constexpr Bytes slice{256 << 10};

/// into[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + ... for `elements` elements: fp32 and fp64 in their own precision, bf16 in fp32
/// with one rounding (to nearest even) at the end. `into` may be one of the parts. No allocation.
void ordered_sum(ElementType type, std::span<const std::byte* const> parts, std::byte* into, std::int64_t elements) noexcept;

}  // namespace flotilla::comm
