#include "flotilla/search/constraints.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/schedule/schedule.hpp"

namespace flotilla::search {
namespace {

constexpr int usual_chunks = 2;

bool interleaves(plan::ScheduleKind kind) { return schedule::schedule_of(kind).interleaves(); }

plan::ScheduleKind interleaving_schedule() { return *std::ranges::find_if(schedule::schedule_kinds(), interleaves); }

bool keeps_microbatch(const plan::Replica& replica, int quantum, int microbatch) {
  return replica.quanta * quantum <= microbatch && replica.microbatches(quantum) == (replica.sequences + microbatch - 1) / microbatch;
}

bool keeps(const plan::Stage& stage, int quantum, const Constraints& fixed) {
  if (fixed.recompute && stage.recompute != *fixed.recompute) return false;
  if (fixed.data && static_cast<int>(stage.replicas.size()) != *fixed.data) return false;
  return std::ranges::all_of(stage.replicas, [&](const plan::Replica& replica) {
    return (!fixed.tensor || replica.tensor_parallel == *fixed.tensor) &&
           (!fixed.microbatch || keeps_microbatch(replica, quantum, *fixed.microbatch));
  });
}

std::vector<int> cuts_of(const plan::Plan& plan) {
  std::vector<int> cuts{0};
  for (const auto& stage : plan.stages) cuts.push_back(stage.last_layer);
  return cuts;
}

bool has(const plan::Plan& plan, const DeviceDemand& demand) {
  int devices = 0;
  for (int s = 0; s < plan::own_stages(plan); ++s)
    for (const auto& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      if (replica.device_type == demand.device_type && replica.zone == demand.zone) devices += replica.tensor_parallel;
  return devices >= demand.devices;
}

}  // namespace

Constraints settled(Constraints fixed) {
  const int chunks = fixed.chunks.value_or(1);
  FLOTILLA_REQUIRE(chunks >= 1, ErrorKind::bad_input, "a device holds ", chunks, " stages; expected at least 1");
  FLOTILLA_REQUIRE(chunks == 1 || !fixed.schedule || interleaves(*fixed.schedule), ErrorKind::bad_input, "a device holds ", chunks,
                   " stages, but the schedule is ", to_string(*fixed.schedule), "; only the interleaved one knows several");
  if (chunks > 1) fixed.schedule = interleaving_schedule();
  if (fixed.schedule && !fixed.chunks) fixed.chunks = interleaves(*fixed.schedule) ? usual_chunks : 1;
  return fixed;
}

std::vector<int> cuts_of_devices(const Constraints& fixed) {
  const auto& cuts = fixed.cuts;
  if (cuts.empty()) return {};
  const std::size_t devices = (cuts.size() - 1) / static_cast<std::size_t>(fixed.chunks.value_or(1));
  std::vector<int> out{0};
  for (std::size_t s = 0; s < devices; ++s) {
    int layers = 0;
    for (std::size_t i = s; i + 1 < cuts.size(); i += devices) layers += cuts[i + 1] - cuts[i];
    out.push_back(out.back() + layers);
  }
  return out;
}

std::optional<plan::Plan> in_chunks(const plan::Plan& plan, int chunks) {
  plan::Plan out = plan;
  out.schedule = interleaving_schedule();
  out.chunks = chunks;
  out.stages.clear();
  int layer = 0;
  for (int c = 0; c < chunks; ++c)
    for (const plan::Stage& stage : plan.stages) {
      const int layers = stage.last_layer - stage.first_layer;
      plan::Stage chunk = stage;
      chunk.first_layer = layer;
      layer += layers * (c + 1) / chunks - layers * c / chunks;
      chunk.last_layer = layer;
      if (chunk.first_layer == chunk.last_layer) return std::nullopt;
      out.stages.push_back(std::move(chunk));
    }
  return out;
}

plan::Plan constrained(plan::Plan plan, const Constraints& fixed) {
  if (fixed.sequence_parallel) plan.sequence_parallel = *fixed.sequence_parallel;
  if (fixed.shard_optimizer) plan.shard_optimizer = *fixed.shard_optimizer;
  if (fixed.schedule && interleaves(*fixed.schedule)) {
    if (auto chunked = in_chunks(plan, fixed.chunks.value_or(usual_chunks))) plan = std::move(*chunked);
  } else if (fixed.schedule) {
    plan.schedule = *fixed.schedule;
  }
  if (fixed.cuts.size() == plan.stages.size() + 1)
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      plan.stages[s].first_layer = fixed.cuts[s], plan.stages[s].last_layer = fixed.cuts[s + 1];
  return plan;
}

bool keeps(const plan::Plan& plan, const Constraints& fixed) {
  if (!std::ranges::all_of(fixed.at_least, [&](const DeviceDemand& demand) { return has(plan, demand); })) return false;
  const auto is = [](const auto& asked, const auto& value) { return !asked || *asked == value; };
  return is(fixed.schedule, plan.schedule) && is(fixed.chunks, plan.chunks) && is(fixed.sequence_parallel, plan.sequence_parallel) &&
         is(fixed.shard_optimizer, plan.shard_optimizer) && is(fixed.pipeline, plan::own_stages(plan)) &&
         (fixed.cuts.empty() || fixed.cuts == cuts_of(plan)) &&
         std::ranges::all_of(plan.stages, [&](const plan::Stage& stage) { return keeps(stage, plan.quantum, fixed); });
}

}  // namespace flotilla::search
