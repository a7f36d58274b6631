#include "wide_groups.hpp"

#include <algorithm>
#include <bit>

#include "candidate_plan.hpp"

namespace flotilla::search::pool {
namespace {

constexpr int collectives_of_a_block = 4;  // two in the forward pass, two in the backward pass: Shoeybi et al. 2019

/// The place with the most devices of a type.
int largest_place(const DevicePool& device_pool, const PoolType& type) {
  return *std::ranges::max_element(type.places, {}, [&](int p) { return device_pool.places[at(p)].count; });
}

}  // namespace

void widen_groups(DevicePool& device_pool, LayerCostTable& layer_cost_table, Network& network) {
  const PlanRequest& request = device_pool.request;
  const int microbatch = std::min(tuning::usual_microbatch, static_cast<int>(std::bit_floor(static_cast<unsigned>(request.global_batch))));
  for (int t = 0; t < static_cast<int>(device_pool.types.size()); ++t) {
    PoolType& type = device_pool.types[at(t)];
    if (!std::has_single_bit(static_cast<unsigned>(type.per_node))) continue;
    const int place = largest_place(device_pool, type);
    const int most = std::min({model::largest_tensor_parallel(request.model), device_pool.places[at(place)].count,
                               type.per_node * tuning::most_nodes_of_a_group});
    while (type.widest * 2 <= most) {
      const int wider = type.widest * 2;
      const LeastPassTime& narrow = layer_cost_table.least_pass(t, type.widest, microbatch, plan::Recompute::none);
      // Half of the compute is saved at best; links that take longer are not looked at more closely.
      if (!narrow.usable || collectives_of_a_block * network.tensor_sum(place, wider, microbatch) > narrow.block / 2) break;
      const LeastPassTime& wide = layer_cost_table.least_pass(t, wider, microbatch, plan::Recompute::none);
      if (!wide.usable || wide.block > tuning::worth_widening * narrow.block) break;
      type.widest = wider;
    }
  }
}

}  // namespace flotilla::search::pool
