#include "linear_crc.hpp"

#include "flotilla/base/hash.hpp"

namespace flotilla::checkpoint {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78u;
constexpr std::uint32_t one = 1u << 31;  // x^0
constexpr std::uint32_t x_to_the_8 = 1u << 23;

}  // namespace

std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (std::uint32_t bit = one; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ ((b & 1u) ? polynomial : 0u);
  }
  return product;
}

std::uint32_t power(std::int64_t bytes) noexcept {
  std::uint32_t result = one, base = x_to_the_8;
  for (; bytes > 0; bytes >>= 1) {
    if (bytes & 1) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

std::uint32_t extended(std::uint32_t remainder, std::span<const std::byte> data) noexcept { return ~crc32c(data, ~remainder); }

std::uint32_t crc_of(std::uint32_t remainder, std::int64_t bytes) noexcept { return ~(shifted(~0u, bytes) ^ remainder); }

}  // namespace flotilla::checkpoint
