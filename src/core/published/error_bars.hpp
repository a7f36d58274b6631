#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/published/comparison.hpp"

/// Where the error bars of forecasts by a description come from: quantiles of what forecasts of published runs missed
/// (docs/measurements/error-bars.md). Pure.
namespace flotilla::published {

/// What a forecast missed, and how its time divides. The bar of such a forecast is
///     root((on_device D + on_links L + on_host H)^2 + R^2),
/// with D of the device, R of the runtime, L of transfers and H of hosts: errors of one kind go together, the runtime's is independent.
struct Residual {
  std::string source, device, runtime;
  double error = 0;                                 ///< measured over forecast, less 1
  double on_device = 0, on_links = 0, on_host = 0;  ///< shares of the busy time
};

/// Of a run with a measured time that can be forecast; `device` is what stands for its catalogue entry's relatives, too (family_of).
/// Nothing for other runs.
std::optional<Residual> residual_of(const Run&, const cluster::Catalogue&);

struct BarFigures {
  std::map<std::string, double> devices, runtimes;
  double links = 0, host = 0;
  double other_device = 0, other_runtime = 0;  ///< of those that no run tells about
};
/// By the formula of Residual.
double bar_of(const Residual&, const BarFigures&);

/// Quantile regression (Koenker and Bassett 1978): the figures for which the pinball loss of |error| against the bar is least, at 0.9.
/// Sources count alike, those of fewer than 20 runs by their number. Figures are whole percents up to 30, coarser above: found one after
/// the other, from three starts; those of devices at least 5, for runs of one configuration differ by as much. `as_new`: what the forecasts
/// of the same runs miss where their devices take all figures but the vendor's from a relative; other_device is the one figure that serves
/// these. other_runtime is the one that serves all runtimes together;
/// those of single runtimes are moved towards it, the more the fewer sources tell of them.
BarFigures figures_of(const std::vector<Residual>&, const std::vector<Residual>& as_new);
/// What figures_of makes least before it moves figures of runtimes.
double bar_loss(const std::vector<Residual>&, const BarFigures&);
/// Share of the residuals within their bars.
double coverage_of(const std::vector<Residual>&, const BarFigures&);

}  // namespace flotilla::published
