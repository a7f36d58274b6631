#include "estimate.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/schedule/schedule.hpp"

namespace flotilla::search::pool {

int Estimator::blocks(int first, int last) const { return std::min(last, stock_.request.model.layers() - 1) - std::max(first, 1); }

std::vector<int> Estimator::sizes() const {
  std::vector<int> all;
  const int most = std::min(stock_.request.global_batch, largest_microbatch);
  for (int m = 1; m <= most; m = levels() ? m + 1 : m * 2) all.push_back(m);
  const auto& fixed = stock_.request.constraints.microbatch;
  if (fixed && std::ranges::find(all, *fixed) == all.end()) all.push_back(*fixed);
  return all;
}

bool Estimator::constrain(Sketch& sketch) const {
  const Constraints& fixed = stock_.request.constraints;
  if (fixed.pipeline && sketch.stages() != *fixed.pipeline) return false;
  if (!stock_.cuts.empty()) {
    if (sketch.cuts.size() != stock_.cuts.size()) return false;
    sketch.cuts = stock_.cuts;
  }
  if (fixed.data && columns_of(sketch) != *fixed.data) return false;
  if (fixed.recompute) std::ranges::fill(sketch.recompute, *fixed.recompute);
  const auto unlike = [&](const Slot& slot) { return slot.tensor != *fixed.tensor; };
  for (Column& column : sketch.columns) {
    if (fixed.tensor && std::ranges::any_of(column.slots, unlike)) return false;
    if (fixed.microbatch) column.microbatch = *fixed.microbatch;
  }
  return true;
}

double Estimator::pass(const Sounding& s, int first, int last) const {
  return (first == 0 ? s.embedding.pass : 0) + blocks(first, last) * s.block.pass +
         (last == stock_.request.model.layers() ? s.head.pass : 0);
}

double Estimator::memory(const Sounding& s, int first, int last, double in_flight, int shards) const {
  const double away = 1 - 1.0 / shards;
  const auto of = [&](const Part& part) { return part.state - part.shareable * away + part.activations * in_flight; };
  const bool begins = first == 0, ends = last == stock_.request.model.layers();
  return s.beside + (begins ? of(s.embedding) : s.neighbour) + blocks(first, last) * of(s.block) + (ends ? of(s.head) : s.neighbour) -
         (begins && ends ? s.shared : 0);
}

namespace {

constexpr double doubt = 0.02;          // of the memory: the forecast decides what is nearly too much
constexpr double backward_share = 0.6;  // of a pass, at least
constexpr int many = 1 << 30;           // microbatches: what is in flight while none are missing
constexpr double without_weight_gradients = 2.0 / 3;  // of a pass, about

/// Of what 1F1B takes to fill and drain the pipeline: zero-bubble passes put weight gradients there (Qi et al. 2023), with chunks the first
/// microbatch comes to the last device so much sooner (Narayanan et al. 2021).
double share_of_fill(const Sketch& sketch) {
  return sketch.schedule == plan::ScheduleKind::zero_bubble ? fill_of_zero_bubble : 1.0 / sketch.chunks;
}

/// Microbatches that a stage keeps before it begins to give them back, in such with all layers of the stage. Of interleaved 1F1B, whose
/// schedule counts none in closed form: the passes before its first backward pass (Narayanan et al. 2021).
double in_flight(const Sketch& sketch, int stage, int microbatches) {
  const int after = sketch.stages() - 1 - stage;
  if (sketch.chunks > 1)
    return std::min<double>((2.0 * after + (sketch.chunks - 1.0) * sketch.stages() + 1) / sketch.chunks, std::max(1, microbatches));
  return schedule::schedule_of(sketch.schedule).in_flight({sketch.stages(), stage, microbatches}).most;
}

bool shares_differ(const Column& a, const Column& b) { return a.sequences / a.count != b.sequences / b.count; }

}  // namespace

const Sounding& Estimator::sounding(const Sketch& sketch, const Column& column, int stage, int microbatch) {
  const Slot& slot = column.slots[at(stage)];
  return soundings_.of(stock_.places[at(slot.place)].type, slot.tensor, microbatch, sketch.recompute[at(stage)], sketch.sequence_parallel);
}

bool Estimator::blocks_on(int microbatch) const {
  const PlanRequest& r = stock_.request;
  const Bytes size = std::int64_t{microbatch} * r.length * r.model.hidden * element_size(r.precision);
  return blocking_ && static_cast<double>(size.count) > buffered_;
}

/// Whether two columns go equally fast as far as it matters: the same types and degrees, each inside one zone.
bool Estimator::alike(const Column& a, const Column& b) const {
  if (a.microbatch != b.microbatch) return false;
  const int zone_a = stock_.places[at(a.slots.front().place)].zone_number, zone_b = stock_.places[at(b.slots.front().place)].zone_number;
  for (std::size_t s = 0; s < a.slots.size(); ++s) {
    const Place &x = stock_.places[at(a.slots[s].place)], &y = stock_.places[at(b.slots[s].place)];
    if (a.slots[s].tensor != b.slots[s].tensor || x.type != y.type || x.zone_number != zone_a || y.zone_number != zone_b) return false;
  }
  return true;
}

/// False where the runtime cannot execute some stage.
bool Estimator::measure(const Sketch& sketch) {
  place(sketch);
  paces_.assign(sketch.columns.size(), {});
  for (std::size_t c = 0; c < sketch.columns.size(); ++c)
    if (c > 0 && alike(sketch.columns[c], sketch.columns[c - 1]))
      paces_[c] = paces_[c - 1];
    else if (!measure(sketch, c, sketch.columns[c].microbatch, paces_[c]))
      return false;
  return true;
}

/// As plan::allocate deals devices, but for groups that do not fill their nodes.
void Estimator::place(const Sketch& sketch) {
  const std::size_t columns = placed_ = sketch.columns.size();
  nodes_.resize(at(sketch.stages()) * columns);
  starts_.resize(at(sketch.stages()) * columns);
  taken_.assign(stock_.places.size(), 0);
  for (int s = 0; s < sketch.stages(); ++s)
    for (std::size_t c = 0; c < columns; ++c) {
      const Slot& slot = sketch.columns[c].slots[at(s)];
      int& taken = taken_[at(slot.place)];
      Nodes& nodes = nodes_[at(s) * columns + c];
      starts_[at(s) * columns + c] = taken;
      nodes.first = taken / per_node(slot.place);
      taken += slot.tensor * sketch.columns[c].count;
      nodes.last = (taken - 1) / per_node(slot.place);
    }
}

int Estimator::flows(const Slot& slot, int replicas) const {
  const int beside = std::min(replicas, std::max(1, per_node(slot.place) / slot.tensor));
  return whole_messages_ ? beside : std::min(beside * slot.tensor, per_node(slot.place));
}

bool Estimator::measure(const Sketch& sketch, std::size_t index, int microbatch, Pace& pace) {
  const Column& column = sketch.columns[index];
  const int stages = sketch.stages();
  ways_.resize(at(stages));
  double before = 0;  // messages of the boundary before the stage, there and back
  double passes = 0, longest = 0;
  const double returned = sketch.schedule == plan::ScheduleKind::zero_bubble ? without_weight_gradients : 1;
  for (int s = 0; s < stages; ++s) {
    const Slot& slot = column.slots[at(s)];
    const Sounding& of_stage = sounding(sketch, column, s, microbatch);
    if (!of_stage.usable) return false;
    const double here = pass(of_stage, sketch.cuts[at(s)], sketch.cuts[at(s + 1)]);
    double behind = 0;
    if (s + 1 < stages) {
      const Slot& next = column.slots[at(s + 1)];
      const Nodes &a = nodes_[at(s) * placed_ + index], &b = nodes_[at(s + 1) * placed_ + index];
      const bool one_node = slot.place == next.place && a == b && a.first == a.last;
      behind = network_.message({slot.place, next.place, one_node, flows(slot, column.count), pieces(slot), column.count}, microbatch) +
               network_.message({next.place, slot.place, one_node, flows(next, column.count), pieces(next), column.count}, microbatch) +
               2 * handshake_;
    }
    // Messages of a blocking runtime hold the device; else they pass beside the compute, one way at a time.
    const double handshakes = 2 * handshake_ * ((s > 0 ? 1 : 0) + (s + 1 < stages ? 1 : 0));
    const double messages = std::max(before, behind) / 2 * sketch.chunks;
    const double held = blocks_on(microbatch) ? here + (before + behind) * sketch.chunks : std::max(here + handshakes, messages);
    pace.slowest = std::max(pace.slowest, held);
    pace.way += here + behind;
    passes += here, longest = std::max(longest, here);
    ways_[at(s)] = returned * here + behind;
    before = behind;
  }
  pace.way -= (passes - longest) * (1 - share_of_fill(sketch));
  if (sketch.chunks > 1) return true;
  // A stage starts a microbatch when one of those in flight has come back from the end.
  const schedule::Schedule& schedule = schedule::schedule_of(sketch.schedule);
  double way = 0;
  for (int s = stages - 1; s >= 0; --s) {
    way += ways_[at(s)];
    pace.slowest = std::max(pace.slowest, way / schedule.in_flight({stages, s, many}).most);
  }
  return true;
}

Estimator::Fullest Estimator::over_memory(const Sketch& sketch, const Column& column) {
  Fullest most;
  const int each = (column.sequences + column.count - 1) / column.count, microbatches = (each + column.microbatch - 1) / column.microbatch;
  for (int s = 0; s < sketch.stages(); ++s) {
    const Slot& slot = column.slots[at(s)];
    const int type = stock_.places[at(slot.place)].type;
    const double limit = static_cast<double>(stock_.types[at(type)].memory.count);
    if (limit <= 0) continue;
    const int shards = sketch.shard_optimizer.value_or(false) ? columns_of(sketch) : 1;
    const double needed = memory(sounding(sketch, column, s), sketch.cuts[at(s)], sketch.cuts[at(s + 1)],
                                 in_flight(sketch, s, microbatches), shards) +
                          network_.staging(sketch.cuts[at(s)], sketch.cuts[at(s + 1)], columns_of(sketch), slot.tensor);
    most.bytes = std::max(most.bytes, needed * (1 - doubt) - limit);
    most.share = std::max(most.share, needed * (1 - doubt) / limit);
  }
  return most;
}

/// Of the columns' last microbatches, which may be short.
double Estimator::shortest_pass(const Sketch& sketch, int stage) {
  double least = 1e300;
  for (const Column& column : sketch.columns) {
    const Sounding& s = sounding(sketch, column, stage);
    const int each = (column.sequences + column.count - 1) / column.count, rest = each % column.microbatch;
    const double share = rest == 0 ? 1 : static_cast<double>(rest) / column.microbatch;
    least = std::min(least, share * pass(s, sketch.cuts[at(stage)], sketch.cuts[at(stage + 1)]));
  }
  return least;
}

/// Gradient sums and the optimizer, after the last pass; sharded where that is open and ends earlier.
double Estimator::after(Sketch& sketch) {
  place(sketch);  // as it was dealt
  struct Way {
    double latest = 0;
    void stage(double sums, double hidden, double later, double before, std::optional<double> word) {
      const double own = std::max(0.0, sums - hidden) + later;  // what both ends sum together waits for the first stage
      latest = std::max(latest, word ? std::max(own - before, later) + *word : own - before);
    }
  } whole, sharded;
  double before = 0;  // that a stage ends its last backward pass before the first stage does
  const double drained = sketch.schedule == plan::ScheduleKind::zero_bubble ? backward_share / 2 : backward_share;
  const double gathered = stock_.request.precision == Precision::fp32 ? 0.5 : 0.25;  // of a sum: what shards come to, in what passes read
  const double word = network_.word_sum(sketch, starts_);  // after the other sums of the first and the last stage
  const int shards = columns_of(sketch);
  for (int s = 0; s < sketch.stages(); ++s) {
    const int first = sketch.cuts[at(s)], last = sketch.cuts[at(s + 1)];
    const auto& of = network_.sums(sketch, s, starts_);
    const bool begins = first == 0, ends = last == stock_.request.model.layers();
    const double all = (begins ? of.embedding : 0) + blocks(first, last) * of.block + (ends ? of.head : 0);
    const double shortest = shortest_pass(sketch, s);
    // Ours run beside the last backward pass, but for the first layer's.
    const double last_sum = begins ? of.embedding : std::min(all, of.block);
    const auto hidden = [&](double share) {
      return described_ ? 0 : std::min(backward_share * shortest, std::max(0.0, share * (all - last_sum)));
    };
    double update = 0;
    for (const Column& column : sketch.columns) {
      const Sounding& of_stage = sounding(sketch, column, s);
      update = std::max(update, (begins ? of_stage.embedding.update : 0) + blocks(first, last) * of_stage.block.update +
                                    (ends ? of_stage.head.update : 0));
    }
    const auto shared_word = begins || (ends && word > 0) ? std::optional{word} : std::nullopt;
    whole.stage(all, hidden(1), update, before, shared_word);
    sharded.stage(all / 2, hidden(0.5), update / shards + all * gathered, before, shared_word);
    before += drained * shortest;
  }
  if (!sketch.shard_optimizer) sketch.shard_optimizer = may_shard_ && shards > 1 && sharded.latest < whole.latest;
  return (*sketch.shard_optimizer ? sharded : whole).latest + (shards > 1 ? reduction_host_ : 0);
}

Estimator::Fullest Estimator::fullest(const Sketch& sketch) {
  Fullest most;
  for (std::size_t c = 0; c < sketch.columns.size(); ++c)
    if (c == 0 || !alike(sketch.columns[c], sketch.columns[c - 1]) || shares_differ(sketch.columns[c], sketch.columns[c - 1]))
      most = std::max(most, over_memory(sketch, sketch.columns[c]), [](auto& a, auto& b) { return a.bytes < b.bytes; });
  return most;
}

/// What the request fixes.
void Estimator::settle(Sketch& sketch) const {
  const Constraints& fixed = stock_.request.constraints;
  if (fixed.schedule) sketch.schedule = *fixed.schedule, sketch.chunks = fixed.chunks.value_or(1);
  if (fixed.sequence_parallel) sketch.sequence_parallel = *fixed.sequence_parallel;
  if (fixed.shard_optimizer) sketch.shard_optimizer = fixed.shard_optimizer;
}

Estimate Estimator::operator()(Sketch& sketch, double enough) {
  ++count_;
  Estimate estimate;
  if (!constrain(sketch)) return estimate;
  settle(sketch);
  if (!measure(sketch)) return estimate;
  estimate.seconds = sketch.dealing == Dealing::level ? deal_level(sketch) : deal_turns(sketch);
  if (stock_.by_throughput() && estimate.seconds > enough) {
    estimate.value = estimate.seconds;
    estimate.fits = true;
    return estimate;
  }
  estimate.seconds += after(sketch);
  Fullest most = fullest(sketch);
  if (most.bytes > 0 && may_shard_ && !*sketch.shard_optimizer && columns_of(sketch) > 1) {
    const double dealt = estimate.seconds - after(sketch);
    sketch.shard_optimizer = true, most = fullest(sketch);
    estimate.seconds = dealt + after(sketch);
  }
  estimate.excess = most.bytes, estimate.full = most.share;
  estimate.fits = estimate.excess <= 0;
  const Objective& objective = stock_.request.objective;
  if (objective.goal == Goal::cost || objective.limits.usd_per_iteration)
    estimate.usd = estimate.seconds * usd_of(sketch, stock_) + network_.egress(sketch);
  if (objective.goal == Goal::cost)
    estimate.value = estimate.usd;
  else
    estimate.value = stock_.by_throughput() ? estimate.seconds : estimate.seconds * price_of(sketch, stock_);
  return estimate;
}

}  // namespace flotilla::search::pool
