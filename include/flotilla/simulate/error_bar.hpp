#pragma once
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::simulate {

/// Nine in ten iterations are in here: a ratio, so that the low end is as far from the forecast as the high one and never 0.
struct ErrorBar {
  Seconds forecast;
  double relative_error = 0;

  Seconds low() const { return forecast / (1 + relative_error); }
  Seconds high() const { return forecast * (1 + relative_error); }
  bool holds(Seconds measured) const { return measured >= low() && measured <= high(); }
};

/// "+- 12 %"; "within a factor of 2.1" where a percentage would read as if nothing could be left.
inline std::string bar_in_words(double relative_error) {
  return relative_error < 0.5 ? "+- " + percent(relative_error) : "within a factor of " + formatted("%.2g", 1 + relative_error);
}

}  // namespace flotilla::simulate
