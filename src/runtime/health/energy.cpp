#include "flotilla/health/energy.hpp"

#include <algorithm>
#include <cstdlib>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/gpu/driver.hpp"
#include "node_files.hpp"

namespace flotilla::health {
namespace {

namespace fs = std::filesystem;

constexpr double microjoule = 1e-6;

double number_in(const fs::path& file) { return std::strtod(kernel_file(file).c_str(), nullptr); }

/// Zones of the kernel's power capping: "intel-rapl:0" is a package, "intel-rapl:0:2" a part of it. A package's counter holds its cores;
/// its memory has a counter of its own. "psys" holds everything again.
bool counted(const std::string& zone) { return zone.starts_with("package") || zone == "dram"; }

}  // namespace

EnergyMeter::EnergyMeter(const fs::path& sys) : begin_{now()}, last_{begin_} {
  find_counters(sys / "class/powercap");
  find_gpus();
  watts_ = gpu_watts();
}

void EnergyMeter::find_counters(const fs::path& zones) {
  no_counters_ = "this machine has no RAPL (" + zones.string() + ")";
  for (const auto& name : files::names_in(zones).value_or(std::vector<std::string>{})) {
    if (!name.starts_with("intel-rapl:") || !counted(kernel_file(zones / name / "name"))) continue;
    const auto file = zones / name / "energy_uj";
    if (kernel_file(file).empty()) {
      no_counters_ = file.string() + " may not be read; only root may, unless the site allows it";
      continue;
    }
    counters_.push_back({file, number_in(file), number_in(zones / name / "max_energy_range_uj")});
  }
}

void EnergyMeter::find_gpus() {
  try {
    for (const auto& device : gpu::presence().devices)
      if (gpu::figures(device.pci_bus_id) && std::ranges::find(gpus_, device.pci_bus_id) == gpus_.end()) gpus_.push_back(device.pci_bus_id);
  } catch (const Error&) {
    gpus_.clear();  // a driver that fails is a finding elsewhere
  }
}

double EnergyMeter::gpu_watts() const {
  double watts = 0;
  for (const auto& bus : gpus_)
    if (const auto figures = gpu::figures(bus)) watts += figures->power_w;
  return watts;
}

void EnergyMeter::sample() {
  const Seconds time = now();
  for (auto& counter : counters_) {
    const double value = number_in(counter.file);
    const double taken = value - counter.last;
    joules_ += microjoule * (taken >= 0 ? taken : taken + counter.range);
    counter.last = value;
  }
  const double watts = gpu_watts();
  joules_ += (watts_ + watts) / 2 * (time - last_).value;
  watts_ = watts;
  last_ = time;
}

std::string EnergyMeter::words() const {
  std::string words = counters_.empty() ? "" : "processors and memory (RAPL)";
  if (!gpus_.empty()) words += text(words.empty() ? "" : ", ", gpus_.size(), gpus_.size() == 1 ? " GPU (NVML)" : " GPUs (NVML)");
  return words.empty() ? no_counters_ : words;
}

}  // namespace flotilla::health
