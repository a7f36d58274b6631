#include "flotilla/base/hash.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace flotilla {
namespace {

constexpr std::array<std::uint32_t, 256> castagnoli_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1u) ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}

std::uint32_t crc32c_by_table(const unsigned char* data, std::size_t size, std::uint32_t crc) {
  static constexpr auto table = castagnoli_table();
  for (std::size_t i = 0; i < size; ++i) crc = table[(crc ^ data[i]) & 0xFFu] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(const unsigned char* data, std::size_t size, std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; size >= 8; size -= 8, data += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; size > 0; --size, ++data) crc = _mm_crc32_u8(crc, *data);
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) noexcept {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~crc32c_by_instruction(data, bytes.size(), ~crc);
#endif
  return ~crc32c_by_table(data, bytes.size(), ~crc);
}

std::string hex(std::uint64_t value) {
  std::string digits(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) digits[i] = "0123456789abcdef"[value & 15u];
  return digits;
}

}  // namespace flotilla
