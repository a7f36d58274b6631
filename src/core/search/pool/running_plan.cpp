#include "running_plan.hpp"

#include <algorithm>
#include <bit>

namespace flotilla::search::pool {
namespace {

int place_of(const plan::Replica& replica, const DevicePool& device_pool) {
  for (std::size_t p = 0; p < device_pool.places.size(); ++p)
    if (device_pool.places[p].zone == replica.zone && device_pool.types[at(device_pool.places[p].type)].name == replica.device_type)
      return static_cast<int>(p);
  return -1;
}

bool is_power_of_two(int number) { return std::has_single_bit(static_cast<unsigned>(number)); }

bool has_columns(const plan::Plan& plan) {
  return std::ranges::all_of(plan.stages,
                             [&](const plan::Stage& stage) { return stage.replicas.size() == plan.stages.front().replicas.size(); });
}

std::optional<PipelineReplica> column_of(const plan::Plan& plan, std::size_t replica, const DevicePool& device_pool) {
  PipelineReplica pipeline;
  pipeline.microbatch = plan.stages.front().replicas[replica].quanta * plan.quantum;
  if (pipeline.microbatch > largest_microbatch && !is_power_of_two(pipeline.microbatch)) return std::nullopt;
  for (int s = 0; s < plan::own_stages(plan); ++s) {
    const plan::Stage& stage = plan.stages[at(s)];
    const int place = place_of(stage.replicas[replica], device_pool);
    if (place < 0 || !device_pool.has_degree(stage.replicas[replica].tensor_parallel)) return std::nullopt;
    pipeline.slots.push_back({place, stage.replicas[replica].tensor_parallel});
  }
  return pipeline;
}

}  // namespace

std::optional<CandidatePlan> from_running_plan(const plan::Plan& plan, const DevicePool& device_pool) {
  if (plan.stages.empty() || !has_columns(plan) || plan.model.layers() != device_pool.request.model.layers()) return std::nullopt;
  CandidatePlan candidate{{0}, {}, {}};
  const auto own = at(plan::own_stages(plan));
  for (std::size_t s = 0; s < own; ++s) {
    int layers = 0;  // of all chunks
    for (std::size_t chunk = s; chunk < plan.stages.size(); chunk += own)
      layers += plan.stages[chunk].last_layer - plan.stages[chunk].first_layer;
    candidate.cuts.push_back(candidate.cuts.back() + layers), candidate.recompute.push_back(plan.stages[s].recompute);
  }
  candidate.schedule = plan.schedule, candidate.chunks = plan.chunks;
  candidate.sequence_parallel = plan.sequence_parallel, candidate.shard_optimizer = plan.shard_optimizer;
  std::vector<int> left;
  for (const Place& place : device_pool.places) left.push_back(place.count);
  for (std::size_t r = 0; r < plan.stages.front().replicas.size(); ++r) {
    const auto pipeline = column_of(plan, r, device_pool);
    if (!pipeline) continue;
    auto after = left;
    for (const Slot& slot : pipeline->slots) after[at(slot.place)] -= slot.tensor;
    if (std::ranges::any_of(after, [](int count) { return count < 0; })) continue;
    left = std::move(after);
    if (!is_power_of_two(pipeline->microbatch)) candidate.partition = BatchPartition::balanced;
    const bool as_before = !candidate.pipelines.empty() && candidate.pipelines.back().slots == pipeline->slots &&
                           candidate.pipelines.back().microbatch == pipeline->microbatch;
    if (as_before)
      ++candidate.pipelines.back().count;
    else
      candidate.pipelines.push_back(*pipeline);
  }
  if (candidate.pipelines.empty()) return std::nullopt;
  return candidate;
}

}  // namespace flotilla::search::pool
