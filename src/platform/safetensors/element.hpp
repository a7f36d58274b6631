#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "flotilla/base/precision.hpp"

/// The elements of tensors, little-endian in files as in memory.
namespace flotilla::safetensors {

/// An element type of the format.
struct StoredElementType {
  std::string_view name;  ///< "BF16"
  int bytes = 0;
  std::optional<Precision> precision;  ///< of those that weights have
};
/// Nothing for a name that the format does not have.
const StoredElementType* find_type(std::string_view name);
std::string_view name_of(Precision);

/// The product of the extents; nothing where it is no count of bytes that a file could have.
std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape);

inline float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
float from_fp16(std::uint16_t);
/// Rounded to nearest even; what is too large becomes infinite.
std::uint16_t to_bf16(float);
std::uint16_t to_fp16(float);

}  // namespace flotilla::safetensors
