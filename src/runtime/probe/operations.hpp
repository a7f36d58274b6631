#pragma once
#include <vector>

#include "coverage.hpp"
#include "elements.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::probe {

/// What this rank measured at one shape: for each model::Operation the median and the scatter of the passes after the first.
struct ShapeTimes {
  Shape shape;
  std::vector<Seconds> seconds;
  std::vector<double> scatter;
};

/// Samples by operation -> median and scatter. `crowded`: the ranks' threads take turns on too few CPUs. An operation that is shorter than
/// a turn then rarely sees one end, so its median is that of a CPU of its own, while training pays for all turns: times are stretched so
/// that their sum is the mean pass.
ShapeTimes summarize(const Shape&, const std::vector<std::vector<double>>& samples, bool crowded);

/// Every shape of the request that fits every rank's memory, as far as the budget lasts. All ranks run all the time: what they take from
/// each other (memory bandwidth, shared cores, clock rate) they will take in training too. Collective; the same shapes on every rank.
std::vector<ShapeTimes> operation_times(const comm::World&, const ProbeRequest&, const Discovery&, Seconds budget);

/// What differs from rank to rank alone, measured while the neighbours do the same.
struct DeviceRates {
  FlopsPerSecond peak_fp32, peak_bf16;  ///< 0 where the library has no such products on this CPU
  BytesPerSecond memory_bandwidth;
  std::vector<std::vector<ElementTime>> elements;  ///< by the request's precisions
};
DeviceRates device_rates(const ProbeRequest&, int threads, Bytes cache, Bytes memory, Seconds budget);

}  // namespace flotilla::probe
