#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/published/comparison.hpp"

namespace flotilla::app {

/// Published runs beside their forecasts, and figures of what they have in common.
struct Validation {
  std::vector<published::Comparison> runs;
  published::Statistics all;
  std::vector<published::Statistics> sources, devices, runtimes;  ///< by name
  std::vector<std::pair<std::string, int>> not_forecast;          ///< reasons and how many runs, the most frequent first
};
Validation validation_of(std::vector<published::Comparison>);

/// "12.3", "+12.3" with a sign, "-" for nothing.
std::string in_percent(std::optional<double> share, bool sign = false);
/// Tables for people, within 80 columns. `each`: every run, too.
std::string validation_text(const Validation&, bool each);
/// docs/formats/validation.md.
std::string validation_json(const Validation&);
/// One HTML file that needs no other: forecast against measured time, a point a run, and the table by source.
std::string validation_page(const Validation&);

}  // namespace flotilla::app
