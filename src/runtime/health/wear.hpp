#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

/// What the kernel says of heat, clocks and memory errors, where it does.
namespace flotilla::health {

/// Degrees Celsius of the hottest processor; 0: not known.
double processor_temperature(const std::filesystem::path& sys);
/// Mean clock of these hardware threads, Hz; 0: not known.
double clock_of(const std::vector<int>& cpus, const std::filesystem::path& sys);

/// Counters since the machine was started; nothing where the kernel does not count.
struct WearCounters {
  std::optional<std::int64_t> throttled, corrected, uncorrected;
};
WearCounters wear_counters(const std::filesystem::path& sys);

/// Of all GPUs together, as NVML tells it.
struct GpuWear {
  double temperature = 0;                              ///< of the hottest, degrees Celsius; 0: not known
  std::optional<bool> hot;                             ///< whether heat lowers a clock now
  std::optional<std::int64_t> corrected, uncorrected;  ///< memory errors
};
GpuWear gpu_wear();

}  // namespace flotilla::health
