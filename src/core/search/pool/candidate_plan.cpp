#include "candidate_plan.hpp"

#include <algorithm>
#include <numeric>

#include "../obedience.hpp"
#include "flotilla/search/constraints.hpp"

namespace flotilla::search::pool {
namespace {

/// Sequences of each column of a kind, as even as they go: where microbatches do not come out, all of them end with a short one.
std::vector<int> shares(const PipelineReplica& pipeline) {
  std::vector<int> out(at(pipeline.count), pipeline.sequences / pipeline.count);
  for (int i = 0; i < pipeline.sequences % pipeline.count; ++i) ++out[at(i)];
  return out;
}

template <class Price>
double sum(const CandidatePlan& candidate, const DevicePool& device_pool, Price price) {
  double all = 0;
  for (const PipelineReplica& pipeline : candidate.pipelines)
    for (const Slot& slot : pipeline.slots) all += pipeline.count * slot.tensor * price(device_pool.places[at(slot.place)]);
  return all;
}

/// What was fixed, and of the rest what the candidate says.
Constraints constraints_of(const CandidatePlan& candidate, Constraints fixed) {
  if (!fixed.schedule) fixed.schedule = candidate.schedule, fixed.chunks = candidate.chunks;
  if (!fixed.sequence_parallel) fixed.sequence_parallel = candidate.sequence_parallel;
  if (!fixed.shard_optimizer) fixed.shard_optimizer = candidate.shard_optimizer.value_or(false);
  return fixed;
}

}  // namespace

bool has_blocks(const CandidatePlan& candidate, std::size_t stage) {
  return std::min(candidate.cuts[stage + 1], candidate.cuts.back() - 1) > std::max(candidate.cuts[stage], 1);
}

int pipelines_of(const CandidatePlan& candidate) {
  int all = 0;
  for (const PipelineReplica& pipeline : candidate.pipelines) all += pipeline.count;
  return all;
}

int devices_of(const CandidatePlan& candidate) {
  int all = 0;
  for (const PipelineReplica& pipeline : candidate.pipelines)
    for (const Slot& slot : pipeline.slots) all += pipeline.count * slot.tensor;
  return all;
}

bool has_tensor_groups(const CandidatePlan& candidate) {
  return std::ranges::any_of(candidate.pipelines, [](const PipelineReplica& pipeline) {
    return std::ranges::any_of(pipeline.slots, [](const Slot& slot) { return slot.tensor > 1; });
  });
}

bool has(const CandidatePlan& candidate, const DeviceDemand& demand, const DevicePool& device_pool) {
  int devices = 0;
  for (const PipelineReplica& pipeline : candidate.pipelines)
    for (const Slot& slot : pipeline.slots) {
      const Place& place = device_pool.places[at(slot.place)];
      if (place.zone == demand.zone && device_pool.types[at(place.type)].name == demand.device_type)
        devices += pipeline.count * slot.tensor;
    }
  return devices >= demand.devices;
}

double price_of(const CandidatePlan& candidate, const DevicePool& device_pool) {
  return sum(candidate, device_pool, [](const Place& place) { return place.price; });
}
double usd_of(const CandidatePlan& candidate, const DevicePool& device_pool) {
  return sum(candidate, device_pool, [](const Place& place) { return place.usd; });
}

plan::Plan plan_without_stages(const PlanRequest& request) {
  plan::Plan plan;
  plan.model = request.model;
  plan.length = request.length;
  plan.global_batch = request.global_batch;
  plan.precision = request.precision;
  return plan;
}

plan::Plan plan_of(const CandidatePlan& candidate, const DevicePool& device_pool) {
  const PlanRequest& request = device_pool.request;
  plan::Plan plan = plan_without_stages(request);
  std::vector<std::vector<int>> sequences;
  plan.quantum = request.global_batch;
  for (const PipelineReplica& pipeline : candidate.pipelines) {
    sequences.push_back(shares(pipeline));
    plan.quantum = std::gcd(plan.quantum, pipeline.microbatch);
    for (const int share : sequences.back()) plan.quantum = std::gcd(plan.quantum, share);
  }
  for (int s = 0; s < candidate.stages(); ++s) {
    plan::Stage stage{candidate.cuts[at(s)], candidate.cuts[at(s + 1)], candidate.recompute[at(s)], {}};
    for (std::size_t c = 0; c < candidate.pipelines.size(); ++c) {
      const PipelineReplica& pipeline = candidate.pipelines[c];
      const Slot& slot = pipeline.slots[at(s)];
      const Place& place = device_pool.places[at(slot.place)];
      for (const int share : sequences[c])
        stage.replicas.push_back(
            {device_pool.types[at(place.type)].name, place.zone, slot.tensor, {}, pipeline.microbatch / plan.quantum, share});
    }
    plan.stages.push_back(std::move(stage));
  }
  return constrained(std::move(plan), constraints_of(candidate, request.constraints));
}

bool is_as_asked(const CandidatePlan& candidate, const DevicePool& device_pool) {
  const PlanRequest& request = device_pool.request;
  if (!device_pool.takes_first_ranks(candidate)) return false;
  if (request.restrictions == Restrictions{} && request.constraints == Constraints{}) return true;
  const plan::Plan plan = plan_of(candidate, device_pool);
  return keeps_restrictions(plan, request.restrictions) && keeps(plan, request.constraints);
}

}  // namespace flotilla::search::pool
