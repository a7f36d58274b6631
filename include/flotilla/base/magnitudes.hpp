#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "flotilla/base/precision.hpp"

/// Values that no training goes on from.
namespace flotilla {

/// How many are not a number, infinite, or greater than `most` in magnitude.
std::int64_t count_beyond(std::span<const float>, float most = std::numeric_limits<float>::max());

/// The greatest magnitude that rounding to the precision leaves finite.
float largest_held(Precision);

/// The elements of one tensor, piece by piece: those that the precision cannot hold.
class ValueCheck {
 public:
  explicit ValueCheck(Precision precision = Precision::fp32) : precision_{precision} {}
  void add(std::span<const float>);
  bool passed() const { return wrong_ == 0; }
  /// "2 of 48 elements are not finite, the first nan", "1 of 48 elements is beyond what fp16 holds, the first 70000".
  std::string in_words() const;

 private:
  Precision precision_;
  std::int64_t elements_ = 0, wrong_ = 0;
  std::optional<float> first_;
};

}  // namespace flotilla
