#include "flotilla/base/figures.hpp"

#include <array>
#include <cstdio>

namespace flotilla {

std::string formatted(const char* format, double value) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), format, value);
  return out.data();
}

Unit unit_of(Seconds most) { return most.value >= 10 ? Unit{"s", 1} : most.value >= 1e-2 ? Unit{"ms", 1e-3} : Unit{"us", 1e-6}; }
Unit unit_of(Bytes most) {
  return most.count >= (1LL << 30) ? Unit{"GiB", 0x1p30} : most.count >= (1LL << 20) ? Unit{"MiB", 0x1p20} : Unit{"KiB", 0x1p10};
}

std::string Unit::digits(double value) const {
  if (value == 0) return "-";
  const double v = value / scale;
  return formatted(v >= 100 ? "%.0f" : v >= 10 ? "%.1f" : "%.2f", v);
}

std::string percent(double part) { return part > 0 && part < 0.0995 ? formatted("%.1f %%", 100 * part) : formatted("%.0f %%", 100 * part); }

}  // namespace flotilla
