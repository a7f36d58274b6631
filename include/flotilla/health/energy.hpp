#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::health {

/// Energy that this node's processors and memory (RAPL) and GPUs (NVML) take from the making of this on. Local; one thread.
class EnergyMeter {
 public:
  explicit EnergyMeter(const std::filesystem::path& sys = "/sys");
  /// Once a minute at least: counters are small and begin anew, and GPUs tell their power, not their energy.
  void sample();
  /// Up to the last sample.
  double joules() const { return joules_; }
  Seconds time() const { return last_ - begin_; }
  /// What is counted: "processors and memory (RAPL), GPUs (NVML)"; where nothing is, why not.
  std::string words() const;
  bool counts() const { return !counters_.empty() || !gpus_.empty(); }

 private:
  struct Counter {
    std::filesystem::path file;
    double last = 0, range = 0;  ///< microjoules
  };
  void find_counters(const std::filesystem::path& sys);
  void find_gpus();
  double gpu_watts() const;

  std::vector<Counter> counters_;
  std::vector<std::string> gpus_;  ///< by bus
  std::string no_counters_;
  double joules_ = 0, watts_ = 0;  ///< watts_: of the GPUs at the last sample
  Seconds begin_, last_;
};

}  // namespace flotilla::health
