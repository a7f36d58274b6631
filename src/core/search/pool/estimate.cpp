#include "estimate.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/schedule/schedule.hpp"

namespace flotilla::search::pool {

std::vector<int> Estimator::sizes() const {
  std::vector<int> all;
  const int most = device_pool_.largest_microbatch;
  for (int m = 1; m <= most; m = balances() ? m + 1 : m * 2) all.push_back(m);
  const auto& fixed = device_pool_.request.constraints.microbatch;
  if (fixed && std::ranges::find(all, *fixed) == all.end()) all.push_back(*fixed);
  return all;
}

bool Estimator::constrain(CandidatePlan& candidate) const {
  const Constraints& fixed = device_pool_.request.constraints;
  if (fixed.pipeline && candidate.stages() != *fixed.pipeline) return false;
  if (!device_pool_.cuts.empty()) {
    if (candidate.cuts.size() != device_pool_.cuts.size()) return false;
    candidate.cuts = device_pool_.cuts;
  }
  if (fixed.data && pipelines_of(candidate) != *fixed.data) return false;
  if (!fixed.sequence_parallel && !has_tensor_groups(candidate)) candidate.sequence_parallel = false;  // nothing to share
  if (fixed.recompute) std::ranges::fill(candidate.recompute, *fixed.recompute);
  const auto unlike = [&](const Slot& slot) { return slot.tensor != *fixed.tensor; };
  for (PipelineReplica& pipeline : candidate.pipelines) {
    if (fixed.tensor && std::ranges::any_of(pipeline.slots, unlike)) return false;
    if (fixed.microbatch) pipeline.microbatch = *fixed.microbatch;
  }
  return std::ranges::all_of(fixed.at_least, [&](const DeviceDemand& demand) { return has(candidate, demand, device_pool_); });
}

double Estimator::memory(const LayerCostSample& s, int first, int last, double in_flight, int shards) const {
  const double away = 1 - 1.0 / shards;
  const auto of = [&](const LayerCost& part) { return part.state - part.shareable * away + part.activations * in_flight; };
  const bool begins = first == 0, ends = last == device_pool_.request.model.layers();
  const double held =
      s.beside + (begins ? of(s.embedding) : s.neighbour) + (ends ? of(s.head) : s.neighbour) - (begins && ends ? s.shared : 0);
  if (begins && !ends && blocks(first, last) == 0) return held + (s.embedding_alone - s.embedding.activations) * in_flight;
  return held + (begins && ends ? s.once_in_one_stage : s.once) + blocks(first, last) * of(s.block);
}

namespace {

constexpr int many = 1 << 30;  // microbatches: what is in flight while none are missing

const schedule::Schedule& schedule_of(const CandidatePlan& candidate) { return schedule::schedule_of(candidate.schedule); }

/// Microbatches that a stage keeps before it begins to give them back, in such with all layers of the stage.
double in_flight(const CandidatePlan& candidate, int stage, int microbatches) {
  const int passes = schedule_of(candidate).passes_in_flight({candidate.stages(), stage, std::max(1, microbatches), candidate.chunks});
  return static_cast<double>(passes) / candidate.chunks;
}

bool shares_differ(const PipelineReplica& a, const PipelineReplica& b) { return a.sequences / a.count != b.sequences / b.count; }

}  // namespace

const LayerCostSample& Estimator::layer_cost(const CandidatePlan& candidate, const PipelineReplica& pipeline, int stage, int microbatch) {
  const Slot& slot = pipeline.slots[at(stage)];
  return layer_cost_table_.of(device_pool_.places[at(slot.place)].type, slot.tensor, microbatch, candidate.recompute[at(stage)],
                              candidate.sequence_parallel);
}

/// The same without its memory, which costs more to find out.
const LeastPassTime& Estimator::pass_times(const CandidatePlan& candidate, const PipelineReplica& pipeline, int stage, int microbatch) {
  const Slot& slot = pipeline.slots[at(stage)];
  return layer_cost_table_.least_pass(device_pool_.places[at(slot.place)].type, slot.tensor, microbatch, candidate.recompute[at(stage)],
                                      candidate.sequence_parallel);
}

bool Estimator::blocks_on(int microbatch) const {
  const PlanRequest& r = device_pool_.request;
  const Bytes size = std::int64_t{microbatch} * r.length * r.model.hidden * element_size(r.precision);
  return blocking_ && static_cast<double>(size.count) > buffered_;
}

/// Whether two columns go equally fast as far as it matters: the same types and degrees, each inside one zone.
bool Estimator::alike(const PipelineReplica& a, const PipelineReplica& b) const {
  if (a.microbatch != b.microbatch) return false;
  const int zone_a = device_pool_.places[at(a.slots.front().place)].zone_number,
            zone_b = device_pool_.places[at(b.slots.front().place)].zone_number;
  for (std::size_t s = 0; s < a.slots.size(); ++s) {
    const Place &x = device_pool_.places[at(a.slots[s].place)], &y = device_pool_.places[at(b.slots[s].place)];
    if (a.slots[s].tensor != b.slots[s].tensor || x.type != y.type || x.zone_number != zone_a || y.zone_number != zone_b) return false;
  }
  return true;
}

/// False where the runtime cannot execute some stage.
bool Estimator::measure(const CandidatePlan& candidate) {
  place(candidate);
  paces_.assign(candidate.pipelines.size(), {});
  for (std::size_t c = 0; c < candidate.pipelines.size(); ++c)
    if (c > 0 && alike(candidate.pipelines[c], candidate.pipelines[c - 1]))
      paces_[c] = paces_[c - 1];
    else if (!measure(candidate, c, candidate.pipelines[c].microbatch, paces_[c]))
      return false;
  return true;
}

/// As plan::allocate deals devices, but for groups that do not fill their nodes.
void Estimator::place(const CandidatePlan& candidate) {
  const std::size_t pipelines = placed_ = candidate.pipelines.size();
  nodes_.resize(at(candidate.stages()) * pipelines);
  starts_.resize(at(candidate.stages()) * pipelines);
  taken_.assign(device_pool_.places.size(), 0);
  for (int s = 0; s < candidate.stages(); ++s)
    for (std::size_t c = 0; c < pipelines; ++c) {
      const Slot& slot = candidate.pipelines[c].slots[at(s)];
      int& taken = taken_[at(slot.place)];
      NodeRange& nodes = nodes_[at(s) * pipelines + c];
      starts_[at(s) * pipelines + c] = taken;
      nodes.first = taken / per_node(slot.place);
      taken += slot.tensor * candidate.pipelines[c].count;
      nodes.last = (taken - 1) / per_node(slot.place);
    }
}

int Estimator::flows(const Slot& slot, int replicas) const {
  const int beside = std::min(replicas, std::max(1, per_node(slot.place) / slot.tensor));
  return whole_messages_ ? beside : std::min(beside * slot.tensor, per_node(slot.place));
}

/// There and back.
double Estimator::messages_between(const Slot& slot, const Slot& next, bool one_node, int replicas, int microbatch) {
  const auto message = [&](const Slot& from, const Slot& to) {
    return network_.message({from.place, to.place, one_node, flows(from, replicas), pieces(from), replicas}, microbatch);
  };
  const double there = message(slot, next), back = slot == next ? there : message(next, slot);
  return there + back + 2 * handshake_;
}

bool Estimator::measure(const CandidatePlan& candidate, std::size_t index, int microbatch, PipelinePace& pace) {
  const PipelineReplica& pipeline = candidate.pipelines[index];
  const int stages = candidate.stages();
  ways_.resize(at(stages));
  double before = 0;                   // messages of the boundary before the stage, there and back
  double overlapped = 0, longest = 0;  // passes; those that the schedule may shorten at the begin and the end
  const schedule::Schedule& schedule = schedule_of(candidate);
  const bool blocks = blocks_on(microbatch);
  const LeastPassTime* of_stage = nullptr;
  bool one_node_before = false;
  for (int s = 0; s < stages; ++s) {
    const Slot& slot = pipeline.slots[at(s)];
    const bool same_slot = s > 0 && slot == pipeline.slots[at(s - 1)];
    const bool as_before = same_slot && candidate.recompute[at(s)] == candidate.recompute[at(s - 1)];
    if (!as_before) of_stage = &pass_times(candidate, pipeline, s, microbatch);
    if (!of_stage->usable) return false;
    const double here = pass(*of_stage, candidate.cuts[at(s)], candidate.cuts[at(s + 1)]);
    double behind = 0;
    if (s + 1 < stages) {
      const Slot& next = pipeline.slots[at(s + 1)];
      const NodeRange &a = nodes_[at(s) * placed_ + index], &b = nodes_[at(s + 1) * placed_ + index];
      const bool one_node = slot.place == next.place && a == b && a.first == a.last;
      const bool same_boundary = same_slot && next == slot && one_node == one_node_before;
      behind = same_boundary ? before : messages_between(slot, next, one_node, pipeline.count, microbatch);
      one_node_before = one_node;
    }
    // Messages of a blocking runtime hold the device; else they pass beside the compute, one way at a time.
    const double handshakes = 2 * handshake_ * ((s > 0 ? 1 : 0) + (s + 1 < stages ? 1 : 0));
    const double messages = std::max(before, behind) / 2 * candidate.chunks;
    const double held = blocks ? here + (before + behind) * candidate.chunks : std::max(here + handshakes, messages);
    pace.slowest = std::max(pace.slowest, held);
    pace.way += here + behind;
    const bool whole = schedule.splits(s) && candidate.recompute[at(s)] == plan::Recompute::full;
    overlapped += whole ? 0 : here, longest = std::max(longest, here);
    ways_[at(s)] = (schedule.splits(s) ? tuning::without_weight_gradients : 1) * here + behind;
    before = behind;
  }
  if (stages > 1) {
    const int most = pipelines_of(candidate) * microbatch, microbatches = (device_pool_.request.global_batch + most - 1) / most;
    pace.way -= std::max(0.0, overlapped - longest) * (1 - schedule.fill(candidate.chunks, microbatches, stages));
  }
  if (candidate.chunks > 1) return true;
  // A stage starts a microbatch when one of those in flight has come back from the end.
  double way = 0;
  for (int s = stages - 1; s >= 0; --s) {
    way += ways_[at(s)];
    pace.slowest = std::max(pace.slowest, way / schedule.in_flight({stages, s, many}).most);
  }
  return true;
}

Estimator::Fullest Estimator::over_memory(const CandidatePlan& candidate, const PipelineReplica& pipeline) {
  Fullest most;
  const int each = (pipeline.sequences + pipeline.count - 1) / pipeline.count,
            microbatches = (each + pipeline.microbatch - 1) / pipeline.microbatch;
  const int pipelines = pipelines_of(candidate), shards = candidate.shard_optimizer.value_or(false) ? pipelines : 1;
  for (int s = 0; s < candidate.stages(); ++s) {
    const Slot& slot = pipeline.slots[at(s)];
    const int type = device_pool_.places[at(slot.place)].type;
    const double limit = static_cast<double>(device_pool_.types[at(type)].memory.count);
    if (limit <= 0) continue;
    const double needed = memory(layer_cost(candidate, pipeline, s), candidate.cuts[at(s)], candidate.cuts[at(s + 1)],
                                 in_flight(candidate, s, microbatches), shards) +
                          network_.staging(candidate.cuts[at(s)], candidate.cuts[at(s + 1)], pipelines, slot.tensor);
    most.bytes = std::max(most.bytes, needed * (1 - tuning::memory_doubt) - limit);
    most.share = std::max(most.share, needed * (1 - tuning::memory_doubt) / limit);
  }
  return most;
}

/// Of the columns' last microbatches, which may be short.
double Estimator::shortest_pass(const CandidatePlan& candidate, int stage) {
  double least = 1e300;
  for (const PipelineReplica& pipeline : candidate.pipelines) {
    const LeastPassTime& s = pass_times(candidate, pipeline, stage, pipeline.microbatch);
    const int each = (pipeline.sequences + pipeline.count - 1) / pipeline.count, rest = each % pipeline.microbatch;
    const double share = rest == 0 ? 1 : static_cast<double>(rest) / pipeline.microbatch;
    least = std::min(least, share * pass(s, candidate.cuts[at(stage)], candidate.cuts[at(stage + 1)]));
  }
  return least;
}

/// Gradient sums and the optimizer, after the last pass; sharded where that is open and ends earlier.
double Estimator::after(CandidatePlan& candidate) {
  place(candidate);  // as it was dealt
  struct Way {
    double latest = 0;
    void stage(double sums, double hidden, double later, double before, std::optional<double> token_embedding) {
      const double own = std::max(0.0, sums - hidden) + later;  // what both ends sum together waits for the first stage
      latest = std::max(latest, token_embedding ? std::max(own - before, later) + *token_embedding : own - before);
    }
  } whole, sharded;
  double before = 0;  // that a stage ends its last backward pass before the first stage does
  const double gathered =
      device_pool_.request.precision == Precision::fp32 ? 0.5 : 0.25;               // of a sum: what shards come to, in what passes read
  const double token_embedding = network_.token_embedding_sum(candidate, starts_);  // after the other sums of the first and the last stage
  const int shards = pipelines_of(candidate);
  for (int s = 0; s < candidate.stages(); ++s) {
    const int first = candidate.cuts[at(s)], last = candidate.cuts[at(s + 1)];
    const auto& of = network_.sums(candidate, s, starts_);
    const bool begins = first == 0, ends = last == device_pool_.request.model.layers();
    const double all = (begins ? of.embedding : 0) + blocks(first, last) * of.block + (ends ? of.head : 0);
    const double shortest = shortest_pass(candidate, s);
    // Ours run beside the last backward pass, but for the first layer's.
    const double last_sum = begins ? of.embedding : std::min(all, of.block);
    const auto hidden = [&](double share) {
      return described_ ? 0 : std::min(tuning::backward_share * shortest, std::max(0.0, share * (all - last_sum)));
    };
    double update = 0;
    for (const PipelineReplica& pipeline : candidate.pipelines) {
      const LayerCostSample& of_stage = layer_cost(candidate, pipeline, s);
      update = std::max(update, (begins ? of_stage.embedding.update : 0) + blocks(first, last) * of_stage.block.update +
                                    (ends ? of_stage.head.update : 0));
    }
    const auto shared_token_embedding = begins || (ends && token_embedding > 0) ? std::optional{token_embedding} : std::nullopt;
    whole.stage(all, hidden(1), update, before, shared_token_embedding);
    sharded.stage(all / 2, hidden(0.5), update / shards + all * gathered, before, shared_token_embedding);
    before += tuning::backward_share * (schedule_of(candidate).splits(s + 1) ? tuning::input_half : 1) *
              shortest;  // the next stage's end is so much earlier
  }
  if (!candidate.shard_optimizer)
    candidate.shard_optimizer = may_shard_ && device_pool_.devices <= tuning::huge_pool && shards > 1 && sharded.latest < whole.latest;
  return (*candidate.shard_optimizer ? sharded : whole).latest + (shards > 1 ? reduction_host_ : 0);
}

bool Estimator::knows_memory(const CandidatePlan& candidate) {
  for (std::size_t c = 0; c < candidate.pipelines.size(); ++c) {
    if (c > 0 && alike(candidate.pipelines[c], candidate.pipelines[c - 1])) continue;
    for (int s = 0; s < candidate.stages(); ++s)
      if (!layer_cost(candidate, candidate.pipelines[c], s).usable) return false;
  }
  return true;
}

Estimator::Fullest Estimator::fullest(const CandidatePlan& candidate) {
  Fullest most;
  for (std::size_t c = 0; c < candidate.pipelines.size(); ++c)
    if (c == 0 || !alike(candidate.pipelines[c], candidate.pipelines[c - 1]) ||
        shares_differ(candidate.pipelines[c], candidate.pipelines[c - 1]))
      most = std::max(most, over_memory(candidate, candidate.pipelines[c]), [](auto& a, auto& b) { return a.bytes < b.bytes; });
  return most;
}

/// What the request fixes.
void Estimator::coordinate_descent(CandidatePlan& candidate) const {
  const Constraints& fixed = device_pool_.request.constraints;
  if (fixed.schedule) candidate.schedule = *fixed.schedule, candidate.chunks = fixed.chunks.value_or(1);
  if (fixed.sequence_parallel) candidate.sequence_parallel = *fixed.sequence_parallel;
  if (fixed.shard_optimizer) candidate.shard_optimizer = fixed.shard_optimizer;
}

Estimate Estimator::operator()(CandidatePlan& candidate, double enough) {
  ++count_;
  Estimate estimate;
  if (!constrain(candidate)) return estimate;
  coordinate_descent(candidate);
  if (!measure(candidate)) return estimate;
  estimate.seconds =
      candidate.partition == BatchPartition::balanced ? partition_balanced(candidate) : partition_into_microbatches(candidate);
  if (device_pool_.by_throughput() && estimate.seconds > enough) {
    estimate.value = estimate.seconds;
    estimate.fits = true;
    return estimate;
  }
  if (!knows_memory(candidate)) return {};
  estimate.seconds += after(candidate);
  Fullest most = fullest(candidate);
  if (most.bytes > 0 && may_shard_ && !*candidate.shard_optimizer && pipelines_of(candidate) > 1) {
    const double dealt = estimate.seconds - after(candidate);
    candidate.shard_optimizer = true, most = fullest(candidate);
    estimate.seconds = dealt + after(candidate);
  }
  estimate.excess = most.bytes, estimate.full = most.share;
  estimate.fits = estimate.excess <= 0;
  const Objective& objective = device_pool_.request.objective;
  if (objective.goal == Goal::cost || objective.limits.usd_per_iteration)
    estimate.usd = estimate.seconds * usd_of(candidate, device_pool_) + network_.egress(candidate);
  if (objective.goal == Goal::cost)
    estimate.value = estimate.usd;
  else
    estimate.value = device_pool_.by_throughput() ? estimate.seconds : estimate.seconds * price_of(candidate, device_pool_);
  return estimate;
}

}  // namespace flotilla::search::pool
