#pragma once
#include <algorithm>
#include <vector>

#include "estimate.hpp"
#include "pool_instances.hpp"

namespace flotilla::fixture {

/// What the planner's parts work with.
struct Parts {
  explicit Parts(const Instance& i)
      : device_pool{i.request, i.library},
        evaluator{device_pool, i.runtime},
        layer_cost_table{device_pool, evaluator},
        network{device_pool, evaluator},
        estimate{device_pool, layer_cost_table, network, i.runtime} {
    for (int m = 1; m <= std::min(i.request.global_batch, search::pool::largest_microbatch); m *= 2) microbatches.push_back(m);
  }
  search::pool::DevicePool device_pool;
  search::pool::PlanEvaluator evaluator;
  search::pool::LayerCostTable layer_cost_table;
  search::pool::Network network;
  search::pool::Estimator estimate;
  std::vector<int> microbatches;
};

}  // namespace flotilla::fixture
