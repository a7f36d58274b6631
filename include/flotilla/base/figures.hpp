#pragma once
#include <string>

#include "flotilla/base/units.hpp"

/// Figures for people: one number, or several beside each other.
namespace flotilla {

/// The number by a printf format of one double, such as "%.3g".
std::string formatted(const char* format, double value);

/// A unit for several figures of which the largest is given: that one has at most four digits before the point.
struct Unit {
  const char* name;
  double scale;
  std::string digits(double value) const;  ///< three of them, without the unit; "-" for nothing
  std::string digits(Seconds time) const { return digits(time.value); }
  std::string digits(Bytes size) const { return digits(static_cast<double>(size.count)); }
};
Unit unit_of(Seconds most);
Unit unit_of(Bytes most);

/// "6 %", "2.4 %": one decimal below ten.
std::string percent(double part);

}  // namespace flotilla
