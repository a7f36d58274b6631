#include "flotilla/published/comparison.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/simulate/forecaster.hpp"

namespace flotilla::published {
namespace {

/// Of the run's cluster, model and batch: what stays the same when only the plan changes.
std::string configuration_of(const Run& run) {
  const auto& m = run.model;
  return text(run.source, "|", run.hardware.device_type, "|", run.hardware.devices, "|", run.hardware.per_node, "|", m.family, "|", m.blocks,
              "|", m.hidden, "|", m.heads, "|", m.vocabulary, "|", run.length, "|", run.global_batch, "|", run.precision, "|", run.runtime);
}

/// What the run measured, of the device that it measured.
Bytes measured_part(const simulate::Forecast& forecast, const plan::Plan& plan, const Measured& measured) {
  Bytes most;
  for (const auto& kind : forecast.kinds) {
    const bool counts = !measured.last_stage || kind.stage % plan::own_stages(plan) == plan::own_stages(plan) - 1;
    const Bytes here = measured.measure == MemoryMeasure::allocated ? kind.memory.arena : kind.memory.peak();
    if (counts) most = std::max(most, here);
  }
  return most;
}

bool fits(const simulate::Forecast& forecast, const cluster::Profile& profile) {
  return std::ranges::all_of(forecast.kinds, [&](const simulate::RankKind& kind) {
    const auto* type = cluster::find_type(profile, kind.device_type);
    return type == nullptr || type->memory.count == 0 || kind.memory.peak() <= type->memory;
  });
}

void add_forecast(Comparison& c, const Expressed& run) {
  const auto forecast = simulate::ProgramForecaster{run.profile, run.runtime, {}}.forecast(run.plan);
  c.plan = plan::summary(run.plan);
  c.runtime = run.runtime.name;
  c.forecast = forecast.iteration;
  c.relative_error = forecast.relative_error;
  if (c.run.measured.memory) c.memory = measured_part(forecast, run.plan, c.run.measured);
  c.fits = fits(forecast, run.profile);
}

}  // namespace

std::optional<double> Comparison::time_error() const {
  if (!is_forecast() || !run.measured.iteration) return std::nullopt;
  return forecast / *run.measured.iteration - 1;
}

std::optional<double> Comparison::memory_error() const {
  if (!is_forecast() || !run.measured.memory || !memory) return std::nullopt;
  return static_cast<double>(memory->count) / static_cast<double>(run.measured.memory->count) - 1;
}

bool Comparison::is_covered() const {
  return run.measured.iteration && std::abs(run.measured.iteration->value - forecast.value) <= relative_error * forecast.value;
}

Comparison compare(const Run& run, const cluster::Catalogue& catalogue) {
  Comparison c;
  c.run = run;
  c.configuration = configuration_of(run);
  const Expression expression = express(run, catalogue);
  c.reason = expression.reason;
  if (!expression.run) return c;
  try {
    add_forecast(c, *expression.run);
  } catch (const Error& error) {
    c.reason = error.what();
  }
  return c;
}

}  // namespace flotilla::published
