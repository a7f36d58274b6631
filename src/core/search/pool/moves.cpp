#include "moves.hpp"

#include <algorithm>

#include "flotilla/schedule/schedule.hpp"

namespace flotilla::search::pool {
namespace {

/// Rounded up.
int parts(int of, int size) { return (of + size - 1) / size; }

class Moves {
 public:
  Moves(const CandidatePlan& candidate, const DevicePool& device_pool, bool balances, const std::function<bool(CandidatePlan&&)>& visit)
      : candidate_{candidate}, device_pool_{device_pool}, levels_{balances}, visit_{visit} {}

  bool run() { return cuts() || recompute() || (level() ? turns() : microbatches()) || counts() || zones() || levelled(); }

 private:
  bool cuts() {
    if (device_pool_.request.restrictions.even_layers) return false;
    for (int s = 1; s < candidate_.stages(); ++s)
      for (const int step : {-1, 1}) {
        CandidatePlan other = candidate_;
        other.cuts[at(s)] += step;
        const bool rises = other.cuts[at(s - 1)] < other.cuts[at(s)] && other.cuts[at(s)] < other.cuts[at(s + 1)];
        if (rises && visit_(std::move(other))) return true;
      }
    return false;
  }

  bool recompute() {
    for (std::size_t s = 0; s < candidate_.recompute.size(); ++s) {
      for (const auto less : {plan::Recompute::none, plan::Recompute::selective}) {
        if (candidate_.recompute[s] <= less) continue;
        CandidatePlan other = candidate_;
        other.recompute[s] = less;
        if (visit_(std::move(other))) return true;
      }
    }
    return false;
  }

  bool microbatches() {
    const bool together = device_pool_.request.restrictions.one_microbatch_size;
    for (std::size_t c = 0; c < (together ? 1 : candidate_.pipelines.size()); ++c)
      for (const bool larger : {false, true}) {
        CandidatePlan other = candidate_;
        bool sensible = true;
        for (std::size_t i = together ? 0 : c; i < (together ? other.pipelines.size() : c + 1); ++i) {
          int& m = other.pipelines[i].microbatch;
          sensible = sensible && (larger ? m * 2 <= device_pool_.largest_microbatch : m > 1);
          m = larger ? m * 2 : std::max(1, m / 2);
        }
        if (sensible && visit_(std::move(other))) return true;
      }
    return false;
  }

  bool level() const { return candidate_.partition == BatchPartition::balanced; }

  /// One more microbatch in each share of a column, or one fewer.
  bool turns() {
    for (std::size_t c = 0; c < candidate_.pipelines.size(); ++c) {
      const PipelineReplica& pipeline = candidate_.pipelines[c];
      const int each = parts(pipeline.sequences, pipeline.count), now = parts(each, pipeline.microbatch);
      for (const int turns : {now + 1, now - 1}) {
        if (turns < 1 || turns > each) continue;
        const int microbatch = parts(each, turns);
        if (microbatch == pipeline.microbatch || microbatch > device_pool_.largest_microbatch) continue;
        CandidatePlan other = candidate_;
        other.pipelines[c].microbatch = microbatch;
        if (visit_(std::move(other))) return true;
      }
    }
    return false;
  }

  /// With microbatches of at most the size that they have, of twice, and of half of it.
  bool levelled() {
    if (!levels_ || level()) return false;
    const int most = device_pool_.largest_microbatch;
    for (const auto& [times, part] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
      CandidatePlan other = candidate_;
      other.partition = BatchPartition::balanced;
      for (PipelineReplica& pipeline : other.pipelines) pipeline.microbatch = std::clamp(pipeline.microbatch * times / part, 1, most);
      if (visit_(std::move(other))) return true;
    }
    return false;
  }

  bool counts() {
    for (std::size_t c = 0; c < candidate_.pipelines.size(); ++c) {
      const int count = candidate_.pipelines[c].count;
      if (candidate_.pipelines.size() > 1) {
        CandidatePlan other = candidate_;
        other.pipelines.erase(other.pipelines.begin() + static_cast<std::ptrdiff_t>(c));
        if (visit_(std::move(other))) return true;
      }
      const int more = room_for(candidate_.pipelines[c]);
      for (const int other_count : {count - 1, count * 7 / 8, count / 2, count + 1, count + (more + 1) / 2, count + more}) {
        if (other_count < 1 || other_count == count || other_count > count + more) continue;
        CandidatePlan other = candidate_;
        other.pipelines[c].count = other_count;
        if (other_count > count && !device_pool_.holds(other)) continue;
        if (visit_(std::move(other))) return true;
      }
    }
    return false;
  }

  /// All that stands in one zone moves to another, which is as large in the types that it takes and of which nothing is used.
  bool zones() {
    if (device_pool_.zones.size() > tuning::most_zones_to_exchange) return false;
    for (const std::string& from : device_pool_.zones)
      for (const std::string& to : device_pool_.zones) {
        CandidatePlan other = candidate_;
        if (from != to && relocate(other, from, to) && visit_(std::move(other))) return true;
      }
    return false;
  }

  bool relocate(CandidatePlan& candidate, const std::string& from, const std::string& to) const {
    bool moved = false;
    for (PipelineReplica& pipeline : candidate.pipelines)
      for (Slot& slot : pipeline.slots) {
        const Place& place = device_pool_.places[at(slot.place)];
        if (place.zone == to) return false;
        if (place.zone != from) continue;
        const auto& places = device_pool_.types[at(place.type)].places;
        const auto there = std::ranges::find_if(places, [&](int p) { return device_pool_.places[at(p)].zone == to; });
        if (there == places.end()) return false;
        slot.place = *there;
        moved = true;
      }
    return moved && device_pool_.holds(candidate);
  }

  /// More such columns that the pool could hold.
  int room_for(const PipelineReplica& pipeline) const {
    std::vector<int> need(device_pool_.places.size(), 0), left;
    for (const Place& place : device_pool_.places) left.push_back(place.count);
    for (const PipelineReplica& other : candidate_.pipelines)
      for (const Slot& slot : other.slots) left[at(slot.place)] -= other.count * slot.tensor;
    for (const Slot& slot : pipeline.slots) need[at(slot.place)] += slot.tensor;
    int more = 1 << 30;
    for (std::size_t p = 0; p < need.size(); ++p)
      if (need[p] > 0) more = std::min(more, std::max(0, left[p]) / need[p]);
    return more;
  }

  const CandidatePlan& candidate_;
  const DevicePool& device_pool_;
  bool levels_;
  const std::function<bool(CandidatePlan&&)>& visit_;
};

class Trades {
 public:
  Trades(const CandidatePlan& candidate, const DevicePool& device_pool, const std::function<void(CandidatePlan&&)>& visit)
      : candidate_{candidate}, device_pool_{device_pool}, visit_{visit} {}

  void run() {
    for (const auto more : {plan::Recompute::selective, plan::Recompute::full}) {
      recompute(more, 1);
      if (candidate_.partition == BatchPartition::balanced) recompute(more, 1.5);
      recompute(more, 2);
      for (std::size_t s = 0; s < candidate_.recompute.size() && candidate_.stages() > 1; ++s) recompute_one(more, s);
    }
    for (const bool wider : {true, false})
      for (const bool as_many_microbatches : {false, true}) {
        const std::size_t all = candidate_.pipelines.size();
        if (!device_pool_.request.restrictions.one_tensor_degree_per_stage)
          for (std::size_t c = 0; c < all; ++c) regroup(c, c + 1, wider, as_many_microbatches);
        if (all > 1 || device_pool_.request.restrictions.one_tensor_degree_per_stage) regroup(0, all, wider, as_many_microbatches);
      }
  }

 private:
  void recompute(plan::Recompute more, double times) {
    CandidatePlan other = candidate_;
    for (std::size_t s = 0; s < other.recompute.size(); ++s)
      if (has_blocks(candidate_, s)) other.recompute[s] = std::max(other.recompute[s], more);
    for (PipelineReplica& pipeline : other.pipelines) {
      pipeline.microbatch = static_cast<int>(pipeline.microbatch * times);
      if (pipeline.microbatch > device_pool_.largest_microbatch) return;
    }
    if (times > 1 || other.recompute != candidate_.recompute) visit_(std::move(other));
  }

  void recompute_one(plan::Recompute more, std::size_t stage) {
    if (candidate_.recompute[stage] >= more || !has_blocks(candidate_, stage)) return;
    CandidatePlan other = candidate_;
    other.recompute[stage] = more;
    visit_(std::move(other));
  }

  /// Columns [first, last) in groups of twice the size, or of half. Their share of the batch changes as much: with microbatches that do,
  /// too, they make as many of them.
  void regroup(std::size_t first, std::size_t last, bool wider, bool as_many_microbatches) {
    CandidatePlan other = candidate_;
    for (std::size_t c = first; c < last; ++c) {
      PipelineReplica& pipeline = other.pipelines[c];
      if (wider && pipeline.count < 2) return;
      pipeline.count = wider ? pipeline.count / 2 : pipeline.count * 2;
      if (as_many_microbatches) {
        if (wider ? pipeline.microbatch * 2 > device_pool_.largest_microbatch : pipeline.microbatch == 1) return;
        pipeline.microbatch = wider ? pipeline.microbatch * 2 : pipeline.microbatch / 2;
      }
      for (Slot& slot : pipeline.slots) {
        if (!device_pool_.has_degree(wider ? slot.tensor * 2 : slot.tensor / 2)) return;
        slot.tensor = wider ? slot.tensor * 2 : slot.tensor / 2;
      }
    }
    if (device_pool_.holds(other)) visit_(std::move(other));
  }

  const CandidatePlan& candidate_;
  const DevicePool& device_pool_;
  const std::function<void(CandidatePlan&&)>& visit_;
};

bool fits_in_chunks(const CandidatePlan& candidate) {
  for (int s = 0; s < candidate.stages(); ++s)
    if (candidate.cuts[at(s + 1)] - candidate.cuts[at(s)] < candidate.chunks) return false;
  return true;
}

}  // namespace

bool for_each_move(const CandidatePlan& candidate, const DevicePool& device_pool, bool balances,
                   const std::function<bool(CandidatePlan&&)>& visit) {
  return Moves{candidate, device_pool, balances, visit}.run();
}

void for_each_execution(const CandidatePlan& candidate, const DevicePool& device_pool, bool may_shard,
                        const std::function<void(CandidatePlan&&)>& visit) {
  const Constraints& fixed = device_pool.request.constraints;
  // The first and the last stage of one pipeline share the token embedding.
  if (may_shard && !fixed.shard_optimizer && (pipelines_of(candidate) > 1 || candidate.stages() > 1)) {
    CandidatePlan other = candidate;
    other.shard_optimizer = !candidate.shard_optimizer.value_or(false);
    visit(std::move(other));
  }
  if (!fixed.sequence_parallel && (candidate.sequence_parallel || has_tensor_groups(candidate))) {
    CandidatePlan other = candidate;
    other.sequence_parallel = !other.sequence_parallel;
    visit(std::move(other));
  }
  if (fixed.schedule) return;
  const auto offer = [&](plan::ScheduleKind schedule, int chunks) {
    CandidatePlan other = candidate;
    other.schedule = schedule, other.chunks = chunks;
    if (!(other == candidate) && fits_in_chunks(other)) visit(std::move(other));
  };
  for (const plan::ScheduleKind kind : schedule::schedule_kinds()) {
    const bool interleaves = schedule::schedule_of(kind).interleaves();
    if (!interleaves && (candidate.stages() > 1 || (candidate.chunks > 1 && kind == schedule::usual_schedule()))) offer(kind, 1);
    for (const int chunks : {candidate.chunks - 1, candidate.chunks + 1})
      if (interleaves && chunks > 1 && candidate.stages() > 1) offer(kind, chunks);
  }
}

void for_each_trade(const CandidatePlan& candidate, const DevicePool& device_pool, const std::function<void(CandidatePlan&&)>& visit) {
  Trades{candidate, device_pool, visit}.run();
}

}  // namespace flotilla::search::pool
