#pragma once
#include <random>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/program/runtime.hpp"
#include "flotilla/search/planner.hpp"
#include "support/random.hpp"

/// Made-up pools, models and objectives for the tests of the planner by our own forecast.
namespace flotilla::fixture {

using tests::Dice;

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
