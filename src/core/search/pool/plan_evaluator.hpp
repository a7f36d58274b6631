#pragma once
#include <memory>
#include <optional>

#include "device_pool.hpp"
#include "evaluated.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "flotilla/simulate/why_not.hpp"

namespace flotilla::search::pool {

/// An unbound plan on devices that are invented for it, or on ranks.
struct Evaluation {
  plan::Plan plan;  ///< unbound
  simulate::Forecast forecast;
  std::optional<simulate::Shortage> tightest;  ///< the device with the least memory to spare
  int devices = 0;
  bool fits() const { return !tightest || tightest->needed <= tightest->limit; }
};

/// Forecasts unbound plans.
class PlanEvaluator {
 public:
  /// `ranks`: what the pool's devices are, where they are known; else devices are invented for every plan.
  PlanEvaluator(const DevicePool&, const program::Runtime&, const simulate::ProgramForecaster* ranks = nullptr);

  /// Nothing where the runtime cannot execute the plan, the profile lacks a figure that it takes, or the ranks are not so on their hosts.
  /// `may_stop`: nor where the request is to stop before the plan's time is known.
  std::optional<Evaluation> forecast(const plan::Plan&, bool may_stop = false);
  /// The same on invented devices whatever the ranks.
  std::optional<Evaluation> forecast_elsewhere(const plan::Plan&, bool may_stop = false);
  /// A plan that was forecast, on the ranks if there are any.
  plan::Plan seated(const plan::Plan&) const;
  bool on_ranks() const { return ranks_ != nullptr; }
  /// All of it on one host, however large: for profiles of a single host, which know no links between hosts.
  std::optional<Evaluation> forecast_on_one_host(const plan::Plan&);
  /// Of every stage's fullest device what no other device has a part in; nothing is simulated.
  struct StageCost {
    simulate::MemoryForecast memory;
    Seconds update;  ///< of the optimizer, gradients set to zero and their norm
  };
  /// By our own runtime. `measured`: the model whose measurements tell the optimizer's time; the plan's may have fewer blocks. Nothing as
  /// forecast() says.
  std::optional<std::vector<StageCost>> stage_costs(const plan::Plan&, const model::Config& measured);
  std::int64_t forecasts() const { return forecasts_; }
  /// Why the first plan, or layer, that was not forecast could not be.
  const std::string& first_refusal() const { return first_refusal_; }
  /// Of an error that a forecast or a bound threw; throws it again where it is internal.
  void note_refusal(const Error&);
  const program::Runtime& runtime() const { return runtime_; }
  /// Of the stock's profile.
  const std::shared_ptr<simulate::TypeCosts>& types() const { return types_; }

 private:
  Bytes process_memory(const std::vector<cluster::Device>&) const;
  std::optional<Evaluation> forecast_on_ranks(const plan::Plan&, bool may_stop);
  /// Nothing where the request stops first.
  std::optional<Evaluation> forecast_on(const plan::Plan& unbound, const plan::Plan& bound, const simulate::ProgramForecaster&,
                                        bool may_stop);

  const DevicePool& device_pool_;
  program::Runtime runtime_;
  const simulate::ProgramForecaster* ranks_;
  cluster::Profile profile_;  ///< its devices are the last plan's
  std::shared_ptr<simulate::TypeCosts> types_;
  std::int64_t forecasts_ = 0;
  std::string first_refusal_;
};

}  // namespace flotilla::search::pool
