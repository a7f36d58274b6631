#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

/// Seconds of whole layers from a profile's layer times. Holds a reference to it.
///
/// Between measured microbatches a time is linear in sequences; above the largest, proportional; below the smallest, that one's. A smaller
/// microbatch never takes longer than a larger one: where a profiler says so, the larger one's time is taken for both. A degree that was
/// not measured takes the nearest one's time, by the ratio of the degrees, and says that it is estimated.
class LayerCosts {
 public:
  explicit LayerCosts(const cluster::Profile& profile) : profile_{profile} {}

  struct LayerKey {
    std::string model, device_type;
    int layer = 0;
    int tensor_parallel = 1;
    Precision precision = Precision::fp32;
    auto operator<=>(const LayerKey&) const = default;
  };
  enum class Pass { forward, backward, update };

  /// nullopt when the model's layer was never measured on the type. `host`: what the profiler added to a pass that waits for the host; it
  /// is taken off as far as the device would have been idle, by the largest microbatch's time per sequence.
  std::optional<Cost> pass(const LayerKey&, Pass, int sequences, Seconds host) const;
  /// The optimizer's step over that many parameters of one device. The profiler timed it on a model of embedding, `profiled_blocks` blocks
  /// and head (library.hpp), so it is taken per parameter of that model. nullopt when it was not measured.
  std::optional<Cost> update(const LayerKey&, int layers, std::int64_t parameters) const;

 private:
  struct LayerTimeSample {
    int sequences = 0;
    double seconds = 0;
  };
  struct LayerTimeSamples {
    std::vector<LayerTimeSample> by_size;  ///< ascending, seconds never falling
    double scale = 1;                      ///< from the degree that was measured
    bool exact = true;
  };
  const LayerTimeSamples& samples(const LayerKey&, Pass) const;
  LayerTimeSamples collect(const LayerKey&, Pass) const;
  int nearest_degree(const LayerKey&) const;
  std::int64_t parameters_of(const LayerKey&, int layer) const;

  const cluster::Profile& profile_;
  mutable std::map<std::tuple<LayerKey, Pass>, LayerTimeSamples> known_;
};

}  // namespace flotilla::simulate
