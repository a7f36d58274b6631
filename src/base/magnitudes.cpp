#include "flotilla/base/magnitudes.hpp"

#include <bit>
#include <cmath>

#include "flotilla/base/error.hpp"

namespace flotilla {

/// Magnitudes are ordered as their bits are, and those of what is not finite come last: integers, which every processor compares in
/// vectors.
std::int64_t count_beyond(std::span<const float> values, float most) {
  constexpr std::size_t block = 1 << 16;  // whose count fits the vectors' lanes
  const auto limit = std::bit_cast<std::int32_t>(most);
  std::int64_t count = 0;
  for (; !values.empty(); values = values.subspan(std::min(block, values.size()))) {
    std::int32_t found = 0;
    for (const float value : values.first(std::min(block, values.size())))
      found += static_cast<std::int32_t>((std::bit_cast<std::int32_t>(value) & 0x7fffffff) > limit);
    count += found;
  }
  return count;
}

float largest_held(Precision precision) {
  switch (precision) {
    case Precision::fp32: return std::numeric_limits<float>::max();
    case Precision::bf16: return std::bit_cast<float>(0x7f7f7fffu);  // halfway to infinity and beyond is rounded there
    case Precision::fp16: break;
  }
  return std::nextafter(65520.0f, 0.0f);
}

void ValueCheck::add(std::span<const float> values) {
  const float most = largest_held(precision_);
  const auto wrong = count_beyond(values, most);
  elements_ += std::ssize(values);
  wrong_ += wrong;
  if (wrong == 0 || first_) return;
  for (const float& value : values)
    if (count_beyond({&value, 1}, most) > 0) {
      first_ = value;
      return;
    }
}

std::string ValueCheck::in_words() const {
  const auto what = std::isfinite(first_.value_or(0)) ? text("beyond what ", to_string(precision_), " holds") : std::string{"not finite"};
  return text(wrong_, " of ", elements_, elements_ == 1 ? " element " : " elements ", wrong_ == 1 ? "is " : "are ", what,
              wrong_ == 1 ? ": " : ", the first: ", std::isnan(first_.value_or(0)) ? std::string{"nan"} : text(first_.value_or(0)));
}

}  // namespace flotilla
