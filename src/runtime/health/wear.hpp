#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

/// What the kernel says of heat, clocks and memory errors, where it does.
namespace flotilla::health {

/// Degrees Celsius of the hottest processor; 0: not known.
double processor_temperature(const std::filesystem::path& sys);
/// The same of the hottest GPU.
double gpu_temperature();
/// Mean clock of these hardware threads, Hz; 0: not known.
double clock_of(const std::vector<int>& cpus, const std::filesystem::path& sys);

/// Counters since the machine was started; nothing where the kernel does not count.
struct WearCounters {
  std::optional<std::int64_t> throttled, corrected, uncorrected;
};
WearCounters wear_counters(const std::filesystem::path& sys);

}  // namespace flotilla::health
