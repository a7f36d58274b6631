#pragma once
#include <random>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/program/runtime.hpp"
#include "flotilla/search/planner.hpp"

/// Made-up pools, models and objectives for the tests of the planner by our own forecast.
namespace flotilla::fixture {

class Dice {
 public:
  explicit Dice(int seed) : random_{static_cast<std::uint64_t>(seed)} {}
  int pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1)); }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(pick(0, static_cast<int>(values.size()) - 1))];
  }
  bool chance(double share) { return real(0, 1) < share; }
  double real(double low, double high) { return low + (high - low) * (static_cast<double>(random_() >> 11) * 0x1p-53); }
  /// Evenly on a logarithmic scale.
  double scale(double low, double high);

 private:
  std::mt19937_64 random_;
};

/// A request and who it is asked of.
struct Instance {
  search::PlanRequest request;
  cluster::Profile library;
  program::Runtime runtime;
};

/// What instances are drawn from.
struct Range {
  int types = 4, zones = 3, devices_of_a_place = 12, devices = 64;
  std::vector<int> node_sizes{1, 2, 3, 4, 6, 8};
  std::vector<std::string> models{"gpt2-tiny", "gpt2-mini", "opt-tiny", "opt-post-tiny", "gpt2", "opt-125m"};
  int blocks = 0;  ///< at most, where it is not 0; else as many as the model has
  int batch = 40;
  bool described_runtimes = true, limits = true, restrictions = true;
  double least_memory = 0.02, most_memory = 4;  ///< of a device, in what one that holds the whole model takes
};

/// The same for a seed on every machine.
Instance random_instance(int seed, const Range& = {});

/// A device type of so many fp32 GFLOP/s, prices and power not known.
cluster::DeviceType made_up_type(const std::string& name, double gigaflops, Bytes memory = {1LL << 40});
/// 10 GB/s inside a node, `zone` and `wide` bytes per second between nodes and between zones.
std::vector<cluster::Link> made_up_links(double node = 10e9, double zone = 1e9, double wide = 1e8);

}  // namespace flotilla::fixture
