#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::bench {

/// A part of a soak. All windows of a soak are about equally long.
struct SoakWindow {
  Seconds at{};            ///< its end, from the soak's begin
  double steps = 0;        ///< of all hardware threads together, a second
  Seconds step{};          ///< processor time of one: the median of those that ended in the window
  double others = -1;      ///< of the processors' time, what other programs took; -1: not known
  double temperature = 0;  ///< of the hottest processor or GPU, degrees Celsius; 0: not known
  double frequency = 0;    ///< mean of the hardware threads, Hz; 0: not known
  double gpu_steps = 0;    ///< of all GPUs together, a second
  Seconds gpu_step{};      ///< of one: the median of those that ended in the window
  bool operator==(const SoakWindow&) const = default;
};

/// A step that gave other bits than the first.
struct WrongStep {
  Seconds at{};
  std::string device;  ///< "hardware thread 3", "GPU 0 (NVIDIA H100 80GB HBM3)"
  std::string digest, expected;
  bool operator==(const WrongStep&) const = default;
};

/// Hours of the known-answer step on every hardware thread and every GPU at once.
struct Soak {
  Seconds wanted{}, lasted{};
  std::string ended;             ///< "time", or the signal: "SIGTERM"
  std::int64_t steps = 0;        ///< in all
  std::int64_t wrong_steps = 0;  ///< with other bits
  std::vector<WrongStep> wrong;  ///< the first of them
  std::vector<SoakWindow> windows;
  std::optional<std::int64_t> throttled{};  ///< times that the kernel counted a clock lowered by heat; nothing: it does not count
  std::optional<std::int64_t> corrected{}, uncorrected{};  ///< memory errors that the kernel counted; nothing: it does not count
  int gpus = 0;                                            ///< that took part
  std::optional<std::int64_t> gpu_throttled{};  ///< of the looks at a GPU, one a second or so, those with a clock lowered by heat
  std::optional<std::int64_t> gpu_corrected{}, gpu_uncorrected{};  ///< memory errors that GPUs counted
  bool operator==(const Soak&) const = default;
};

/// How much longer a step took in the last fifth of the windows than in the first, by medians, among windows in which other programs took
/// little. Nothing where fewer than five such windows are in either part.
struct SoakDrift {
  double longer = 0;     ///< relative; negative: it became faster
  double tolerance = 0;  ///< max(5 %, 3 x 1.4826 median absolute deviations of the windows)
};
enum class SoakedDevice { hardware_threads, gpus };
std::optional<SoakDrift> drift_of(const Soak&, SoakedDevice);

}  // namespace flotilla::bench
