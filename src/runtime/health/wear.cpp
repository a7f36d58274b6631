#include "wear.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/gpu/driver.hpp"
#include "node_files.hpp"

namespace flotilla::health {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_of(const fs::path& folder) { return files::names_in(folder).value_or(std::vector<std::string>{}); }

std::optional<std::int64_t> wear_count(const fs::path& file) {
  const auto words = kernel_file(file);
  if (words.empty()) return std::nullopt;
  return std::strtoll(words.c_str(), nullptr, 10);
}

void add(std::optional<std::int64_t>& sum, const std::optional<std::int64_t>& more) {
  if (more) sum = sum.value_or(0) + *more;
}

/// Sensors inside processors, by the names of their drivers.
bool of_a_processor(const std::string& chip) {
  return chip == "coretemp" || chip == "k10temp" || chip == "zenpower" || chip == "cpu_thermal";
}

double thousandths(const fs::path& file) {
  constexpr double thousandth = 1e-3;
  return thousandth * std::strtod(kernel_file(file).c_str(), nullptr);
}

double hottest_sensor(const fs::path& chip) {
  double hottest = 0;
  for (const auto& name : names_of(chip))
    if (name.starts_with("temp") && name.ends_with("_input")) hottest = std::max(hottest, thousandths(chip / name));
  return hottest;
}

/// Each core counts its own; all threads of a package show its one counter.
std::optional<std::int64_t> throttle_count(const fs::path& cpus) {
  std::optional<std::int64_t> cores, package;
  for (const auto& cpu : names_of(cpus)) {
    add(cores, wear_count(cpus / cpu / "thermal_throttle/core_throttle_count"));
    if (const auto count = wear_count(cpus / cpu / "thermal_throttle/package_throttle_count"))
      package = std::max(package.value_or(0), *count);
  }
  add(cores, package);
  return cores;
}

}  // namespace

double processor_temperature(const fs::path& sys) {
  const auto chips = sys / "class/hwmon";
  double hottest = 0;
  for (const auto& chip : names_of(chips))
    if (of_a_processor(kernel_file(chips / chip / "name"))) hottest = std::max(hottest, hottest_sensor(chips / chip));
  return hottest;
}

GpuWear gpu_wear() {
  GpuWear wear;
  try {
    for (const auto& device : gpu::presence().devices) {
      const auto figures = gpu::figures(device.pci_bus_id);
      if (!figures) continue;
      wear.temperature = std::max(wear.temperature, static_cast<double>(figures->temperature_c));
      if (figures->hot) wear.hot = wear.hot.value_or(false) || *figures->hot;
      add(wear.corrected, figures->corrected);
      add(wear.uncorrected, figures->uncorrected);
    }
  } catch (const Error&) {
    return {};  // a driver that fails is a finding elsewhere
  }
  return wear;
}

double clock_of(const std::vector<int>& cpus, const fs::path& sys) {
  constexpr double kilohertz = 1e3;
  double sum = 0;
  int known = 0;
  for (const int cpu : cpus) {
    const double clock = std::strtod(kernel_file(sys / text("devices/system/cpu/cpu", cpu, "/cpufreq/scaling_cur_freq")).c_str(), nullptr);
    if (clock > 0) sum += clock, ++known;
  }
  return known == 0 ? 0 : kilohertz * sum / known;
}

WearCounters wear_counters(const fs::path& sys) {
  WearCounters counters{throttle_count(sys / "devices/system/cpu"), {}, {}};
  const auto controllers = sys / "devices/system/edac/mc";
  for (const auto& controller : names_of(controllers)) {
    add(counters.corrected, wear_count(controllers / controller / "ce_count"));
    add(counters.uncorrected, wear_count(controllers / controller / "ue_count"));
  }
  return counters;
}

}  // namespace flotilla::health
