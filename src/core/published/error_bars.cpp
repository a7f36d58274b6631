#include "error_bars.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "flotilla/cluster/relatives.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "network_of_run.hpp"

namespace flotilla::published {
namespace {

constexpr double wanted_coverage = 0.9;
constexpr double runs_of_a_full_source = 20;
constexpr int most_sweeps = 12;
constexpr double repeats = 0.05;  // of a device at least: runs of one configuration on one cluster differ by up to 7 %
constexpr std::array starts{0.02, 0.06, 0.15};

/// Whole percents to 30, then coarser: nobody knows a large error that well.
std::vector<double> percents() {
  std::vector<double> all;
  for (int p = 1; p <= 30; ++p) all.push_back(p / 100.0);
  for (int p : {35, 40, 45, 50, 60, 70, 80, 90, 100, 120}) all.push_back(p / 100.0);
  return all;
}

/// The error bar of a forecast where all that is uncertain is the device's figures, its links', or the host's.
double share(const Expressed& run, double device, double links, double host) {
  Expressed alone = run;
  alone.runtime.layers->relative_error = alone.runtime.layers->relative_error_half = 0;
  alone.runtime.layers->host_error = host;
  for (auto& type : alone.profile.device_types) type.efficiency.error = type.efficiency.error_16 = device;
  for (auto& link : alone.profile.links) link.relative_scatter = links;
  return simulate::ProgramForecaster{alone.profile, alone.runtime, {}}.forecast(alone.plan).relative_error;
}

std::map<std::string, double> weights_of(const std::vector<Residual>& residuals) {
  std::map<std::string, double> weights;
  for (const auto& r : residuals) ++weights[r.source];
  for (auto& [source, weight] : weights) weight = std::min(1.0, weight / runs_of_a_full_source) / weight;
  return weights;
}

double pinball(double error, double bar) { return error > bar ? wanted_coverage * (error - bar) : (1 - wanted_coverage) * (bar - error); }

/// Residuals and the weights of their sources.
struct Evidence {
  explicit Evidence(const std::vector<Residual>& all) : residuals{all}, weights{weights_of(all)} {}
  double loss(const BarFigures& figures) const {
    double sum = 0;
    for (const auto& r : residuals) sum += weights.at(r.source) * pinball(std::abs(r.error), bar_of(r, figures));
    return sum;
  }
  const std::vector<Residual>& residuals;
  std::map<std::string, double> weights;
};

/// Sets `figure` to the percentage, not below `smallest`, with the least loss; whether that is another.
bool choose(const Evidence& evidence, BarFigures& figures, double& figure, double smallest = 0) {
  static const auto candidates = percents();
  const double before = figure;
  double best = before, least = before < smallest ? std::numeric_limits<double>::infinity() : evidence.loss(figures);
  for (const double candidate : candidates) {
    if (candidate < smallest) continue;
    figure = candidate;
    if (const double loss = evidence.loss(figures); loss < least - 1e-9) least = loss, best = candidate;
  }
  figure = best;
  return best != before;
}

BarFigures from_start(const Evidence& evidence, double start) {
  BarFigures figures;
  for (const auto& r : evidence.residuals) figures.devices[r.device] = figures.runtimes[r.runtime] = start;
  figures.links = figures.host = start;
  bool changed = true;
  for (int sweep = 0; sweep < most_sweeps && changed; ++sweep) {
    changed = false;
    for (auto& [name, figure] : figures.devices) changed |= choose(evidence, figures, figure, repeats);
    for (auto& [name, figure] : figures.runtimes) changed |= choose(evidence, figures, figure);
    changed |= choose(evidence, figures, figures.links);
    changed |= choose(evidence, figures, figures.host);
  }
  return figures;
}

double known_or(const std::map<std::string, double>& figures, const std::string& name, double otherwise) {
  const auto found = figures.find(name);
  return found == figures.end() ? otherwise : found->second;
}

}  // namespace

std::optional<Residual> residual_of(const Run& run, const cluster::Catalogue& catalogue) {
  const Comparison c = compare(run, catalogue);
  if (!c.time_error()) return std::nullopt;
  const auto expressed = express(run, catalogue).run;
  const auto entry = entry_of(run, catalogue);
  Residual r{run.source, cluster::family_of(*entry, catalogue), c.runtime, 1 / (1 + *c.time_error()) - 1};
  r.on_device = share(*expressed, 1, 0, 0);
  r.on_links = share(*expressed, 0, 1, 0);
  r.on_host = share(*expressed, 0, 0, 1);
  return r;
}

double bar_of(const Residual& r, const BarFigures& figures) {
  const double device = known_or(figures.devices, r.device, figures.other_device);
  return std::hypot(r.on_device * device + r.on_links * figures.links + r.on_host * figures.host,
                    known_or(figures.runtimes, r.runtime, figures.other_runtime));
}

/// A figure from few sources tells little of the next source. So it moves towards the figure that serves all runtimes, which counts as half
/// a source: the variance of a source never seen is that within sources and that between them. Beyond half a source, the loss of sources
/// that are left out hardly falls (docs/measurements/error-bars.md).
constexpr double sources_of_all = 0.5;

void move_towards_all(BarFigures& figures, const std::vector<Residual>& residuals) {
  std::map<std::string, std::map<std::string, double>> runs;
  for (const auto& r : residuals) ++runs[r.runtime][r.source];
  for (auto& [name, figure] : figures.runtimes) {
    double sources = 0;
    for (const auto& [source, count] : runs[name]) sources += std::min(1.0, count / runs_of_a_full_source);
    const double variance = sources * figure * figure + sources_of_all * figures.other_runtime * figures.other_runtime;
    figure = std::round(100 * std::sqrt(variance / (sources + sources_of_all))) / 100;
  }
}

BarFigures figures_of(const std::vector<Residual>& residuals, const std::vector<Residual>& as_new) {
  const Evidence evidence{residuals};
  BarFigures best = from_start(evidence, starts.front());
  for (const double start : starts) {
    auto figures = from_start(evidence, start);
    if (evidence.loss(figures) < evidence.loss(best)) best = std::move(figures);
  }
  BarFigures one_device = best, one_runtime = best;
  one_device.devices.clear();
  one_runtime.runtimes.clear();
  choose(Evidence{as_new}, one_device, one_device.other_device, repeats);
  choose(evidence, one_runtime, one_runtime.other_runtime);
  best.other_device = one_device.other_device;
  best.other_runtime = one_runtime.other_runtime;
  move_towards_all(best, residuals);
  return best;
}

double bar_loss(const std::vector<Residual>& residuals, const BarFigures& figures) { return Evidence{residuals}.loss(figures); }

double coverage_of(const std::vector<Residual>& residuals, const BarFigures& figures) {
  const auto covered = std::ranges::count_if(residuals, [&](const Residual& r) { return std::abs(r.error) <= bar_of(r, figures); });
  return static_cast<double>(covered) / static_cast<double>(std::max<std::size_t>(1, residuals.size()));
}

}  // namespace flotilla::published
