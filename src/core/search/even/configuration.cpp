#include "configuration.hpp"

#include <algorithm>
#include <set>

#include "../tuning.hpp"

namespace flotilla::search::even {
namespace {

/// 1 ... most, or the fixed one when it is among them.
std::vector<int> choices(const std::optional<int>& fixed, int most) {
  std::vector<int> list;
  if (fixed) {
    if (*fixed <= most) list.push_back(*fixed);
    return list;
  }
  for (int i = 1; i <= most; ++i) list.push_back(i);
  return list;
}

/// Sequences in a microbatch beyond which times are no longer believed: caches that held a smaller one's activations hold no larger one's.
int largest_believed(const Problem& problem) {
  std::int64_t tokens = 0;
  for (const auto& time : problem.profile.operation_times)
    if (time.precision == problem.request.precision) tokens = std::max(tokens, std::int64_t{time.sequences} * time.length);
  const std::int64_t largest = tuning::believed_microbatch * tokens / std::max(1, problem.request.length);
  return tokens > 1 ? static_cast<int>(std::clamp<std::int64_t>(largest, 1, problem.request.global_batch)) : problem.request.global_batch;
}

/// The smallest microbatch for every possible number of microbatches: any other only takes memory and pads.
std::vector<int> microbatch_sizes(const Problem& problem, int sequences) {
  if (problem.request.constraints.microbatch) return {*problem.request.constraints.microbatch};
  const int largest = largest_believed(problem);
  std::set<int> sizes;
  for (int count = 1; count <= sequences; ++count)
    if (const int size = (sequences + count - 1) / count; size <= largest) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

std::vector<plan::Recompute> recomputations(const PlanRequest& request) {
  if (request.constraints.recompute) return {*request.constraints.recompute};
  return {plan::Recompute::none, plan::Recompute::selective, plan::Recompute::full};
}

std::vector<plan::ScheduleKind> schedules(const PlanRequest& request, int pipeline) {
  if (request.constraints.schedule) return {*request.constraints.schedule};
  // With one stage all run the same instructions' worth of work; the usual one keeps one microbatch.
  if (pipeline == 1) return {schedule::usual_schedule()};
  return searched_schedules();
}

void add_configurations(const Problem& problem, Placement placement, std::vector<Configuration>& all) {
  const auto shared = std::make_shared<const Placement>(std::move(placement));
  for (int microbatch : microbatch_sizes(problem, *std::ranges::max_element(shared->sequences)))
    for (auto schedule : schedules(problem.request, shared->pipeline))
      for (auto recompute : recomputations(problem.request)) all.push_back({shared, microbatch, schedule, recompute});
}

}  // namespace

int Configuration::most_sequences() const { return *std::ranges::max_element(placement->sequences); }

int Configuration::microbatches(int replica) const {
  return (placement->sequences[static_cast<std::size_t>(replica)] + microbatch - 1) / microbatch;
}

int Configuration::in_flight(int stage, int replica) const {
  return schedule::schedule_of(schedule).in_flight({placement->pipeline, stage, microbatches(replica)}).least;
}

std::vector<plan::ScheduleKind> searched_schedules() {
  constexpr int second = 1;  // the first stage has no gradient to send on
  std::vector<plan::ScheduleKind> all;
  for (const plan::ScheduleKind kind : schedule::schedule_kinds())
    if (const auto& schedule = schedule::schedule_of(kind); !schedule.interleaves() && !schedule.splits(second)) all.push_back(kind);
  return all;
}

std::vector<Configuration> configurations(const Problem& problem) {
  const PlanRequest& request = problem.request;
  const Constraints& fixed = request.constraints;
  const auto cuts = cuts_of_devices(problem.fixed());
  const auto pipeline_fixed = cuts.empty() ? fixed.pipeline : std::optional<int>{static_cast<int>(cuts.size()) - 1};
  const int most_tensor = std::min(model::largest_tensor_parallel(request.model), problem.ranks());
  std::vector<Configuration> all;
  for (int tensor : choices(fixed.tensor, most_tensor))
    for (int pipeline : choices(pipeline_fixed, std::min(request.model.layers() / problem.chunks(), problem.ranks() / tensor)))
      for (int data : choices(fixed.data, std::min(request.global_batch, problem.ranks() / (tensor * pipeline))))
        for (auto& placement : placements(problem, data, pipeline, tensor)) add_configurations(problem, std::move(placement), all);
  std::ranges::stable_sort(all, {}, [](const Configuration& c) { return c.placement->device_count(); });
  return all;
}

plan::Plan make_plan(const Problem& problem, const Configuration& c, const std::vector<int>& cuts) {
  const PlanRequest& request = problem.request;
  const Placement& p = *c.placement;
  plan::Plan plan = plan::even_plan(request.model, request.length, request.global_batch, request.precision, p.data, p.pipeline, p.tensor,
                                    c.microbatch, c.schedule, cuts);
  const bool dealt_alike = std::ranges::equal(plan.stages.front().replicas, p.sequences, {}, &plan::Replica::sequences);
  if (!dealt_alike) plan.quantum = 1;
  for (int s = 0; s < p.pipeline; ++s) {
    plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    stage.recompute = c.recompute;
    for (int r = 0; r < p.data; ++r) {
      plan::Replica& replica = stage.replicas[static_cast<std::size_t>(r)];
      replica.devices = p.devices(s, r);
      const auto& device = problem.device(replica.devices.front());
      replica.device_type = device.type;
      replica.zone = device.zone;
      if (dealt_alike) continue;
      replica.sequences = p.sequences[static_cast<std::size_t>(r)];
      replica.quanta = std::min(c.microbatch, c.most_sequences());
    }
  }
  return constrained(std::move(plan), problem.fixed());
}

}  // namespace flotilla::search::even
