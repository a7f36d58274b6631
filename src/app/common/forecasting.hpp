#pragma once
#include <memory>
#include <string>

#include "app/common/binding.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/simulate/report.hpp"

namespace flotilla::app {

/// Stated bound of what a process of our runtime holds beside its arena: code, libraries, MPI's and oneDNN's own memory, token pages.
/// MPI's share grows with the ranks of its host, which share memory with it.
Bytes runtime_constant(int ranks_on_a_host);
/// Most devices of one host.
int most_on_a_host(const std::vector<cluster::Device>&);

/// Whose forecast it is.
struct ForecastSettings {
  program::Runtime runtime;
  compute::ComputeDevice device{};  ///< how GPUs compute: what of their libraries is counted
  bool sailor_artifact = false;     ///< the Sailor artifact's own formulas in place of the program simulator
};

/// The catalogue's figures for the plan's types where the profile says nothing. Throws Error{bad_input} naming `source` for a type
/// that neither knows.
cluster::Profile with_catalogue(cluster::Profile, const cluster::Catalogue&, const plan::Plan&, const std::string& source);

/// Operation times hold for the shape of the model that they were measured with. Whether the profile had any of another one; they are gone.
bool drop_times_of_another_model(cluster::Profile&, const model::Config&, int length);

/// For planning over a pool (search::plan): a profile that knows its types, and must outlive it.
std::unique_ptr<simulate::Forecaster> forecaster_for_pools(const cluster::Profile&, const ForecastSettings&);

/// What is forecast and how.
class Forecasting {
 public:
  Forecasting(BoundPlan, const ForecastSettings&);
  Forecasting(const Forecasting&) = delete;
  Forecasting& operator=(const Forecasting&) = delete;

  const BoundPlan& subject() const { return subject_; }
  simulate::Forecast forecast(bool timeline = false) const { return forecaster_->forecast(subject_.plan, timeline); }

 private:
  BoundPlan subject_;
  std::unique_ptr<simulate::Forecaster> forecaster_;
};

/// The report of a forecast, with why it does not fit and what would make it fit. Plans that need other devices than the subject's are
/// tried on devices that are invented from `profile`.
simulate::Report report_on(const Forecasting&, const simulate::Forecast&, const cluster::Profile& profile, const ForecastSettings&);

}  // namespace flotilla::app
