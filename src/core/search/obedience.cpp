#include "obedience.hpp"

#include <algorithm>

namespace flotilla::search {
namespace {

struct Least {
  int least = 1 << 30, most = 0;
  void add(int value) { least = std::min(least, value), most = std::max(most, value); }
  bool differs_by_more_than_one() const { return most - least > 1; }
};

bool one_type(const plan::Plan& plan) {
  const auto& type = plan.stages.front().replicas.front().device_type;
  return std::ranges::all_of(plan.stages, [&](const plan::Stage& s) {
    return std::ranges::all_of(s.replicas, [&](const auto& r) { return r.device_type == type; });
  });
}

bool one_degree(const plan::Stage& stage) {
  return std::ranges::all_of(stage.replicas, [&](const auto& r) { return r.tensor_parallel == stage.replicas.front().tensor_parallel; });
}

bool one_microbatch(const plan::Plan& plan) {
  Least turns;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) {
      if (replica.quanta != plan.stages.front().replicas.front().quanta) return false;
      turns.add(replica.microbatches(plan.quantum));
    }
  return !turns.differs_by_more_than_one();
}

bool even(const plan::Plan& plan) {
  Least blocks;
  for (const auto& stage : plan.stages) blocks.add(std::min(stage.last_layer, plan.model.layers() - 1) - std::max(stage.first_layer, 1));
  return !blocks.differs_by_more_than_one();
}

bool uniform(const plan::Plan& plan) {
  const auto& first = plan.stages.front();
  return std::ranges::all_of(plan.stages, [&](const plan::Stage& stage) {
    return stage.replicas.size() == first.replicas.size() && std::ranges::all_of(stage.replicas, [&](const auto& replica) {
             return replica.tensor_parallel == first.replicas.front().tensor_parallel && replica.quanta == first.replicas.front().quanta;
           });
  });
}

}  // namespace

bool keeps_restrictions(const plan::Plan& plan, const Restrictions& r) {
  if (r.one_device_type && !one_type(plan)) return false;
  if (r.one_tensor_degree_per_stage && !std::ranges::all_of(plan.stages, one_degree)) return false;
  if (r.one_microbatch_size && !one_microbatch(plan)) return false;
  if (r.uniform_degrees && !uniform(plan)) return false;
  const auto replicas = plan.stages.front().replicas.size();
  if (r.equal_replicas && !std::ranges::all_of(plan.stages, [&](const auto& stage) { return stage.replicas.size() == replicas; }))
    return false;
  return !r.even_layers || even(plan);
}

}  // namespace flotilla::search
