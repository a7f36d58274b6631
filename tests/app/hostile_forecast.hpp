#pragma once
#include <cmath>
#include <stdexcept>
#include <string>

#include "app/common/forecasting.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/forecast_file.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"

/// What `flotilla simulate` does with a plan and a profile that nobody vouches for.
namespace flotilla::app::testing {

inline void require(bool good, const std::string& what) {
  if (!good) throw std::logic_error{what};
}

inline void require_sane(const simulate::Breakdown& breakdown, Seconds iteration) {
  for (Seconds s : breakdown.seconds) require(std::isfinite(s.value) && s.value >= 0, "a time of a breakdown");
  require(std::abs((breakdown.total() - iteration).value) <= 1e-6 * iteration.value, "the sum of a breakdown");
}

/// Times are finite and not negative, memory is not negative, and the report can be written and read. Throws std::logic_error.
inline void require_sane(const simulate::Report& report) {
  require(std::isfinite(report.iteration.value) && report.iteration.value >= 0, "the iteration time");
  require(std::isfinite(report.relative_error) && report.relative_error >= 0, "the error bar");
  for (const auto& row : report.rows) {
    require_sane(row.breakdown, report.iteration);
    for (Bytes bytes : row.memory.categories) require(bytes.count >= 0, "a device's memory");
  }
  const std::string json = files::forecast_to_json(report);
  require(files::forecast_to_json(files::forecast_from_json(json, "forecast")) == json, "the forecast on disk");
}

/// Whether it was forecast; false where it was refused as somebody else's mistake. Anything else escapes.
inline bool forecast(const std::string& plan_json, const std::string& profile_json) {
  try {
    auto plan = files::plan_from_json(plan_json, "plan.json");
    const auto profile = files::profile_from_json(profile_json, "profile.json");
    const ForecastSettings settings;
    const Forecasting forecasting{subject_of(std::move(plan), profile, "plan.json"), settings};
    require_sane(report_on(forecasting, forecasting.forecast(), profile, settings));
    return true;
  } catch (const Error& error) {
    require(error.kind() != ErrorKind::internal, error.what());
    require(std::string{error.what()}.find('\n') == std::string::npos, "an error of several lines");
    return false;
  }
}

}  // namespace flotilla::app::testing
