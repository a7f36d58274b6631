#include "ordered_sum.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "flotilla/base/half.hpp"

namespace flotilla::comm {
namespace {

// Each format: what is stored, what it is added in, and the way there and back. The loops over a block vectorize.
struct Fp32 {
  using Stored = float;
  using Sum = float;
  static Sum widen(Stored x) { return x; }
  static Stored narrow(Sum x) { return x; }
};
struct Fp64 {
  using Stored = double;
  using Sum = double;
  static Sum widen(Stored x) { return x; }
  static Stored narrow(Sum x) { return x; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static Sum widen(Stored x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }
  static Stored narrow(Sum x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return static_cast<Stored>(is_nan ? quiet_nan : rounded);
  }
};
struct Fp16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static Sum widen(Stored x) { return half_to_float(x); }
  static Stored narrow(Sum x) { return half_from_float(x); }
};

constexpr std::int64_t block_size = 1024;  // elements; the running sums stay in the first-level cache

template <class Format>
void sum_block(std::span<const std::byte* const> parts, std::byte* into, std::int64_t first, std::int64_t count) noexcept {
  using Stored = typename Format::Stored;
  std::array<typename Format::Sum, block_size> sums;
  const auto* start = reinterpret_cast<const Stored*>(parts.front()) + first;
  for (std::int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] = Format::widen(start[i]);
  for (const std::byte* part : parts.subspan(1)) {
    const auto* values = reinterpret_cast<const Stored*>(part) + first;
    for (std::int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] += Format::widen(values[i]);
  }
  auto* out = reinterpret_cast<Stored*>(into) + first;
  for (std::int64_t i = 0; i < count; ++i) out[i] = Format::narrow(sums[static_cast<std::size_t>(i)]);
}

template <class Format>
void sum(std::span<const std::byte* const> parts, std::byte* into, std::int64_t elements) noexcept {
  for (std::int64_t first = 0; first < elements; first += block_size)
    sum_block<Format>(parts, into, first, std::min(block_size, elements - first));
}

}  // namespace

void ordered_sum(ElementType type, std::span<const std::byte* const> parts, std::byte* into, std::int64_t elements) noexcept {
  switch (type) {
    case ElementType::fp32: return sum<Fp32>(parts, into, elements);
    case ElementType::bf16: return sum<Bf16>(parts, into, elements);
    case ElementType::fp16: return sum<Fp16>(parts, into, elements);
    case ElementType::fp64: return sum<Fp64>(parts, into, elements);
  }
}

}  // namespace flotilla::comm
