#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace flotilla::app {

/// A curve in one line of at most `width` characters: "▇▅▃▂▂▁". Each stands for the mean of as many values; one without a finite value is
/// a blank. Empty where fewer than two values are finite.
std::string sparkline(std::span<const double> values, std::size_t width);

}  // namespace flotilla::app
