#pragma once
#include <vector>

#include "coverage.hpp"
#include "elements.hpp"
#include "flotilla/comm/world.hpp"
#include "shape_samples.hpp"

namespace flotilla::probe {

/// What a rank measured of its operations.
struct OperationTimes {
  std::vector<ShapeTimes> shapes;
  double throttling = 1;  ///< of this rank: 1 unless it is crowded
};
/// Every shape of the request that fits every rank's memory, as far as the budget lasts. All ranks run all the time: what they take from
/// each other (memory bandwidth, shared cores, clock rate) they will take in training too. All shapes in turn, then all of them again: what
/// disturbs one round does not disturb the median of several, and where it disturbs most of them there are more. Collective; the same
/// shapes on every rank.
OperationTimes operation_times(const comm::World&, const ProbeRequest&, const Discovery&, Seconds budget);

/// What differs from rank to rank alone, measured while the neighbours do the same.
struct DeviceRates {
  FlopsPerSecond peak_fp32, peak_bf16;  ///< 0 where the library has no such products on this device
  BytesPerSecond memory_bandwidth;
  std::vector<std::vector<ElementTime>> elements;  ///< by the request's precisions
  cluster::CopyRate to_device{}, to_host{};        ///< of a GPU
  double context_bytes = 0;                        ///< of a GPU's memory, taken by what is neither arena nor another rank's
  double nccl_bytes = 0;                           ///< of a GPU's memory, by NCCL for each other member of a communicator
  double device_mpi_bytes = 0;                     ///< of a GPU's memory, by MPI for each other GPU
  cluster::Interference interference{};            ///< of a CPU
};
/// Of a CPU. Elements' times are read off `clock`.
DeviceRates device_rates(const ProbeRequest&, int threads, Bytes cache, Bytes memory, Seconds budget, Clock clock);
/// Of the request's GPU, which `sharers` ranks measure, and of whose memory this one may use `memory`.
DeviceRates gpu_rates(const ProbeRequest&, int threads, int sharers, Bytes memory, Seconds budget);

/// Elements' times in processor time -> what they take.
DeviceRates throttled(DeviceRates, double throttling);

}  // namespace flotilla::probe
