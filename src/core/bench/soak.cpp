#include "soak.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "statistics.hpp"

namespace flotilla::bench {
namespace {

constexpr double much_of_others = 0.10;  // of the processors' time: such a window says nothing
constexpr double least_drift = 0.05, drain_drift = 2;
constexpr double soak_deviations = 3 * 1.4826;
constexpr std::size_t part = 5, fewest_windows = 5;

/// Of a step in those of the windows that others left alone.
std::vector<double> step_times(std::span<const SoakWindow> windows, SoakedDevice device) {
  std::vector<double> times;
  for (const auto& window : windows) {
    const Seconds step = device == SoakedDevice::gpus ? window.gpu_step : window.step;
    if (window.others <= much_of_others && step.value > 0) times.push_back(step.value);
  }
  return times;
}

void judge_bits(const Soak& soak, std::vector<Reason>& reasons) {
  if (soak.wrong_steps == 0) return;
  const auto first =
      soak.wrong.empty() ? std::string{} : text("; the first after ", soak.wrong.front().at, " on ", soak.wrong.front().device);
  reasons.push_back(
      {Grade::drain, "soak", text(soak.wrong_steps, " of ", soak.steps, " training steps gave other bits than the first", first)});
}

void judge_counters(const Soak& soak, std::vector<Reason>& reasons) {
  if (soak.uncorrected.value_or(0) > 0)
    reasons.push_back({Grade::drain, "memory errors",
                       text(*soak.uncorrected, " memory errors that could not be corrected in ", soak.lasted, "; edac-util -v")});
  if (soak.corrected.value_or(0) > 0)
    reasons.push_back(
        {Grade::watch, "memory errors", text(*soak.corrected, " corrected memory errors in ", soak.lasted, "; edac-util -v")});
  if (soak.throttled.value_or(0) > 0)
    reasons.push_back({Grade::watch, "throttling",
                       text("its clock was lowered ", *soak.throttled, " times by heat in ", soak.lasted, "; look at its cooling")});
}

void judge_gpu_counters(const Soak& soak, std::vector<Reason>& reasons) {
  if (soak.gpu_uncorrected.value_or(0) > 0)
    reasons.push_back(
        {Grade::drain, "memory errors",
         text(*soak.gpu_uncorrected, " GPU memory errors that could not be corrected in ", soak.lasted, "; nvidia-smi -q -d ECC")});
  if (soak.gpu_corrected.value_or(0) > 0)
    reasons.push_back({Grade::watch, "memory errors",
                       text(*soak.gpu_corrected, " corrected GPU memory errors in ", soak.lasted, "; nvidia-smi -q -d ECC")});
  if (soak.gpu_throttled.value_or(0) > 0)
    reasons.push_back({Grade::watch, "throttling",
                       text("heat lowered the clock of a GPU at ", *soak.gpu_throttled, " looks in ", soak.lasted,
                            "; nvidia-smi -q -d PERFORMANCE, look at its cooling")});
}

void judge_drift(const Soak& soak, SoakedDevice device, std::vector<Reason>& reasons) {
  const auto drift = drift_of(soak, device);
  if (!drift || drift->longer <= drift->tolerance) return;
  reasons.push_back(
      {drift->longer > drain_drift * drift->tolerance ? Grade::drain : Grade::watch, "soak",
       text("a training step ", device == SoakedDevice::gpus ? "of a GPU " : "", "took ", percent(drift->longer), " longer at the end of ",
            soak.lasted, " than at the begin; ", percent(drift->tolerance), " is within its scatter")});
}

}  // namespace

std::optional<SoakDrift> drift_of(const Soak& soak, SoakedDevice device) {
  const std::span windows{soak.windows};
  const std::size_t fifth = windows.size() / part;
  const auto begin = step_times(windows.first(fifth), device), end = step_times(windows.last(fifth), device);
  if (begin.size() < fewest_windows || end.size() < fewest_windows) return std::nullopt;
  const double before = median_of(begin), after = median_of(end);
  return SoakDrift{after / before - 1,
                   std::max(least_drift, soak_deviations * std::max(deviation_of(begin, before), deviation_of(end, after)) / before)};
}

void judge_soak(const NodeReport& node, std::vector<Reason>& reasons) {
  if (!node.soak) return;
  judge_bits(*node.soak, reasons);
  judge_counters(*node.soak, reasons);
  judge_gpu_counters(*node.soak, reasons);
  for (const auto device : {SoakedDevice::hardware_threads, SoakedDevice::gpus}) judge_drift(*node.soak, device, reasons);
}

}  // namespace flotilla::bench
