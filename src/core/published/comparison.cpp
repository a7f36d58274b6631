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
  return text(run.source, "|", run.hardware.device_type, "|", run.hardware.devices, "|", run.hardware.per_node, "|", m.family, "|",
              m.blocks, "|", m.hidden, "|", m.heads, "|", m.vocabulary, "|", run.length, "|", run.global_batch, "|", run.precision, "|",
              run.runtime);
}

/// What a tool outside the process sees: the allocator keeps more than its tensors need, but no more than the device has.
Bytes seen_outside(const simulate::MemoryForecast& memory, const Expressed& run, const std::string& device_type) {
  const double beside = run.plan.precision == Precision::fp32 ? 0 : run.runtime.layers->reserved_half;
  const Bytes all = memory.peak() + Bytes{static_cast<std::int64_t>(beside * static_cast<double>(memory.arena.count))};
  const auto* type = cluster::find_type(run.profile, device_type);
  return type == nullptr || type->memory.count == 0 ? all : std::min(all, std::max(type->memory, memory.peak()));
}

/// Of tensors alone: libraries of collectives take their buffers from the driver.
Bytes allocated(const simulate::MemoryForecast& memory) {
  return memory.arena - memory.categories[static_cast<std::size_t>(program::Category::communication)];
}

/// What the run measured, of the device that it measured.
Bytes measured_part(const simulate::Forecast& forecast, const Expressed& run, const Measured& measured) {
  const int stages = plan::own_stages(run.plan);
  Bytes most;
  for (const auto& kind : forecast.kinds) {
    if (measured.last_stage && kind.stage % stages != stages - 1) continue;
    const bool tensors = measured.measure == MemoryMeasure::allocated;
    most = std::max(most, tensors ? allocated(kind.memory) : seen_outside(kind.memory, run, kind.device_type));
  }
  return most;
}

bool fits(const simulate::Forecast& forecast, const Expressed& run) {
  const double held = run.plan.precision == Precision::fp32 ? 0 : run.runtime.layers->held_when_full_half;
  return std::ranges::all_of(forecast.kinds, [&](const simulate::RankKind& kind) {
    const auto* type = cluster::find_type(run.profile, kind.device_type);
    const Bytes all = kind.memory.peak() + Bytes{static_cast<std::int64_t>(held * static_cast<double>(kind.memory.arena.count))};
    return type == nullptr || type->memory.count == 0 || all <= type->memory;
  });
}

void add_forecast(Comparison& c, const Expressed& run) {
  const auto forecast = simulate::ProgramForecaster{run.profile, run.runtime, {}}.forecast(run.plan);
  c.plan = plan::summary(run.plan);
  c.runtime = run.runtime.name;
  c.forecast = forecast.iteration;
  c.relative_error = forecast.relative_error;
  c.memory_bar = forecast.memory_error;
  if (c.run.measured.memory) c.memory = measured_part(forecast, run, c.run.measured);
  c.fits = fits(forecast, run);
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
  return run.measured.iteration && simulate::ErrorBar{forecast, relative_error}.holds(*run.measured.iteration);
}

std::optional<bool> Comparison::memory_is_covered() const {
  if (!memory_error()) return std::nullopt;
  return static_cast<double>(run.measured.memory->count) <= (1 + memory_bar) * static_cast<double>(memory->count);
}

Comparison compare(const Run& run, const cluster::Catalogue& catalogue, const std::function<void(program::LayerRuntime&)>& adjust) {
  Comparison c;
  c.run = run;
  c.configuration = configuration_of(run);
  Expression expression = express(run, catalogue);
  c.reason = expression.reason;
  if (!expression.run) return c;
  if (adjust) adjust(*expression.run->runtime.layers);
  try {
    add_forecast(c, *expression.run);
  } catch (const Error& error) {
    c.reason = error.what();
  }
  return c;
}

}  // namespace flotilla::published
