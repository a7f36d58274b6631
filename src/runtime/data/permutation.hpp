#pragma once
#include <cstdint>

#include "flotilla/base/philox.hpp"

namespace flotilla::data {

/// A random order of 0 … size-1 that is computed, not stored: position → element in constant time and memory, a pure function of
/// (size, seed, purpose). A generalized Feistel network over a rectangle a * b >= size with cycle walking (Black and Rogaway, "Ciphers
/// with arbitrary finite domains", CT-RSA 2002).
class Permutation {
 public:
  /// `size` >= 1.
  Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t purpose);

  std::int64_t size() const { return size_; }
  /// The element at `position` in [0, size).
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;
  std::int64_t size_;
  std::uint64_t rows_, columns_;  ///< a and b
  Philox random_;
};

}  // namespace flotilla::data
