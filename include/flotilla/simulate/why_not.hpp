#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/plan/plan.hpp"
#include "flotilla/simulate/report.hpp"

/// Why a plan does not fit, and what would make it fit.
namespace flotilla::simulate {

/// Bytes that a device may use; absent where nobody knows.
using MemoryLimit = std::function<std::optional<Bytes>(Rank)>;

/// The device with the least memory to spare, whether it is over its limit or not; type and host are left empty. Absent where no limit is
/// known.
std::optional<Shortage> tightest(const Forecast&, const MemoryLimit&);

/// Why memory is held, the largest first, zeros left out.
std::vector<std::pair<std::string, Bytes>> contributors(const MemoryForecast&);
/// The three largest: "optimizer 1.90 GiB, activations 1.20 GiB, parameters 512 MiB".
std::string contributors_in_words(const MemoryForecast&);

/// A changed plan that was forecast.
struct ChangedPlan {
  Seconds iteration;
  Bytes spare;  ///< of the tightest device; below 0: it does not fit
};
/// Forecasts a plan that is bound to the same devices or to none; nothing where it cannot be executed or lacks devices.
using Forecasting = std::function<std::optional<ChangedPlan>(const plan::Plan&)>;

/// Of the changes of one thing that make a bound plan fit, that with the least loss of time: recomputation in the stages that are short or
/// in all, smaller microbatches, 1F1B, the optimizer's state sharded among replicas, layers moved from a short stage to a neighbour,
/// twice the tensor degree or twice the stages on the same devices. Where none of these does, those on more devices; where those do not
/// either, the change that comes nearest to fitting is made and others are tried with it, up to four together.
std::optional<Remedy> find_remedy(const plan::Plan&, const std::vector<int>& short_stages, Seconds iteration, const Forecasting&);

/// Of a report whose devices do not all fit; nothing where they do.
std::optional<WhyNot> why_not(const plan::Plan&, const Report&, const Forecasting&);

/// Three lines for people.
std::string in_words(const WhyNot&);

}  // namespace flotilla::simulate
