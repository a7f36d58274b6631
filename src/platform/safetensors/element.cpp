#include "element.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "flotilla/base/error.hpp"

namespace flotilla::safetensors {
namespace {

constexpr std::array types{StoredElementType{"F32", 4, Precision::fp32},
                           StoredElementType{"BF16", 2, Precision::bf16},
                           StoredElementType{"F16", 2, Precision::fp16},
                           StoredElementType{"F64", 8, {}},
                           StoredElementType{"I64", 8, {}},
                           StoredElementType{"U64", 8, {}},
                           StoredElementType{"I32", 4, {}},
                           StoredElementType{"U32", 4, {}},
                           StoredElementType{"I16", 2, {}},
                           StoredElementType{"U16", 2, {}},
                           StoredElementType{"I8", 1, {}},
                           StoredElementType{"U8", 1, {}},
                           StoredElementType{"F8_E4M3", 1, {}},
                           StoredElementType{"F8_E5M2", 1, {}},
                           StoredElementType{"BOOL", 1, {}}};

constexpr std::uint32_t sign_bit = 0x80000000, infinity_bits = 0x7f800000;

}  // namespace

const StoredElementType* find_type(std::string_view name) {
  const auto* found = std::ranges::find(types, name, &StoredElementType::name);
  return found == types.end() ? nullptr : found;
}

std::string_view name_of(Precision precision) {
  return std::ranges::find(types, std::optional{precision}, &StoredElementType::precision)->name;
}

std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t most = std::int64_t{1} << 56;
  std::int64_t count = 1;
  for (const auto extent : shape)
    if (__builtin_mul_overflow(count, extent, &count) || count < 0 || count > most) return std::nullopt;
  return count;
}

float from_fp16(std::uint16_t bits) {
  constexpr std::uint32_t exponent_shift = 127 - 15, least_normal = 0x400, infinite = 0x7c00;
  const std::uint32_t sign = (std::uint32_t{bits} << 16) & sign_bit, magnitude = bits & 0x7fffu;
  if (magnitude < least_normal) return std::copysign(static_cast<float>(magnitude) * 0x1p-24f, std::bit_cast<float>(sign));
  const std::uint32_t exponent_and_fraction =
      magnitude >= infinite ? infinity_bits | (magnitude << 13) : (magnitude << 13) + (exponent_shift << 23);
  return std::bit_cast<float>(sign | exponent_and_fraction);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::uint16_t to_fp16(float value) {
  constexpr std::uint32_t too_large = 0x477ff000;     // 65520, halfway from the largest number to the next that there would be
  constexpr std::uint32_t least_normal = 0x38800000;  // 2^-14
  constexpr std::uint32_t exponent_shift = (127 - 15) << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & sign_bit) >> 16, magnitude = bits & ~sign_bit;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= too_large) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < least_normal)
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f)));
  return static_cast<std::uint16_t>(sign | ((magnitude + 0x0fff + ((magnitude >> 13) & 1) - exponent_shift) >> 13));
}

}  // namespace flotilla::safetensors
