#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "flotilla/files/json.hpp"
#include "flotilla/simulate/report.hpp"

/// Forecasts as JSON: docs/formats/forecast.md. Readers throw Error{bad_input} with file, JSON pointer and what was expected.
namespace flotilla::files {

/// Indented, ends with a newline. The same report gives the same text; doubles come back bit by bit. A remedy's plan is left out.
std::string forecast_to_json(const simulate::Report&);
/// What follows from other figures (throughput, low and high, fits) is computed again, not believed.
simulate::Report forecast_from_json(std::string_view text, std::string_view source);
simulate::Report forecast_from_json(const Json&);

}  // namespace flotilla::files
