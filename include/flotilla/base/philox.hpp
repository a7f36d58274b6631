#pragma once
#include <array>
#include <cstdint>

namespace flotilla {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): 128 random bits that are a pure function of
/// (key, counter). Nothing random in Flotilla depends on the plan: keys are (seed, purpose), counters are global indices.
struct Philox {
  std::uint32_t key0 = 0, key1 = 0;

  constexpr Philox() = default;
  /// `purpose` tells streams of one seed apart: a tensor's initialization, a layer's dropout in a step, the order of the data.
  constexpr Philox(std::uint64_t seed, std::uint64_t purpose)
      : key0{static_cast<std::uint32_t>(mix(seed ^ mix(purpose)))}, key1{static_cast<std::uint32_t>(mix(seed ^ mix(purpose)) >> 32)} {}

  constexpr std::array<std::uint32_t, 4> operator()(std::uint64_t low, std::uint64_t high = 0) const {
    std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32), static_cast<std::uint32_t>(high),
                                   static_cast<std::uint32_t>(high >> 32)};
    std::uint32_t k0 = key0, k1 = key1;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
      c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

  /// SplitMix64's finalizer (Steele, Lea, Flood 2014): spreads a 64-bit value over all bits.
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
};

/// 32 random bits to a float in (0, 1), both ends excluded.
constexpr float uniform(std::uint32_t bits) { return (static_cast<float>(bits >> 9) + 0.5f) * 0x1p-23f; }

}  // namespace flotilla
