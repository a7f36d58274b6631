#include "app/report/run_forecast.hpp"

#include "app/common/forecast_basis.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/session/data_record.hpp"

namespace flotilla::app {
namespace {

RunForecast forecast_of(const checkpoint::Loaded& newest) {
  const auto source = (newest.directory / "manifest.json").string();
  FLOTILLA_REQUIRE(!newest.manifest.plan.empty() && !newest.manifest.profile.empty(), ErrorKind::bad_input, source,
                   ": has no plan or no profile");
  auto plan = files::plan_from_json(newest.manifest.plan, source + ": /plan");
  const auto profile =
      with_catalogue(files::profile_from_json(newest.manifest.profile, source + ": /profile"), files::built_in_catalogue(), plan, source);
  ForecastBasis basis;
  basis.separate_documents = newest.manifest.training.find("\ndocuments = separate") != std::string::npos;
  if (!newest.manifest.data.empty())
    if (const auto sources = session::data_record_from_json(newest.manifest.data, source + ": /data").size(); sources > 1)
      basis.sources = static_cast<int>(sources);
  const auto settings = settings_of(basis);
  const Forecasting forecasting{subject_of(plan, profile, source), settings};
  auto forecast = forecasting.forecast(true);
  auto report = report_on(forecasting, forecast, profile, settings);
  return {std::move(plan), std::move(forecast), std::move(report)};
}

}  // namespace

std::optional<RunForecast> forecast_of_run(const std::filesystem::path& run, std::string& why) {
  try {
    if (const auto newest = checkpoint::latest(run)) return forecast_of(*newest);
    why = "No checkpoint says which plan the run has.";
  } catch (const Error& error) {
    why = error.what();
  }
  return std::nullopt;
}

}  // namespace flotilla::app
