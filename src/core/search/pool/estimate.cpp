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

double Estimator::memory(const Sounding& s, int first, int last, int in_flight, int replicas) const {
  const double away = stock_.request.constraints.shard_optimizer.value_or(false) ? 1 - 1.0 / replicas : 0;
  const auto of = [&](const Part& part) { return part.state - part.shareable * away + part.activations * in_flight; };
  const bool begins = first == 0, ends = last == stock_.request.model.layers();
  return s.beside + (begins ? of(s.embedding) : s.neighbour) + blocks(first, last) * of(s.block) + (ends ? of(s.head) : s.neighbour) -
         (begins && ends ? s.shared : 0);
}

namespace {

constexpr double doubt = 0.02;          // of the memory: the forecast decides what is nearly too much
constexpr double backward_share = 0.6;  // of a pass, at least
constexpr int many = 1 << 30;           // microbatches: what is in flight while none are missing

bool shares_differ(const Column& a, const Column& b) { return a.sequences / a.count != b.sequences / b.count; }

}  // namespace

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
  for (int s = 0; s < stages; ++s) {
    const Slot& slot = column.slots[at(s)];
    const Sounding& sounding = soundings_.of(stock_.places[at(slot.place)].type, slot.tensor, microbatch, sketch.recompute[at(s)]);
    if (!sounding.usable) return false;
    const double here = pass(sounding, sketch.cuts[at(s)], sketch.cuts[at(s + 1)]);
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
    const double held = blocks_on(microbatch) ? here + before + behind : std::max(here + handshakes, std::max(before, behind) / 2);
    pace.slowest = std::max(pace.slowest, held);
    pace.way += here + behind;
    ways_[at(s)] = here + behind;
    before = behind;
  }
  // A stage starts a microbatch when one of those in flight has come back from the end.
  const schedule::Schedule& schedule = schedule::schedule_of(sketch.schedule);
  double way = 0;
  for (int s = stages - 1; s >= 0; --s) {
    way += ways_[at(s)];
    pace.slowest = std::max(pace.slowest, way / schedule.in_flight({stages, s, many}).most);
  }
  return true;
}

Estimator::Fullest Estimator::over_memory(const Sketch& sketch, const Column& column) const {
  Fullest most;
  const int each = (column.sequences + column.count - 1) / column.count, microbatches = (each + column.microbatch - 1) / column.microbatch;
  for (int s = 0; s < sketch.stages(); ++s) {
    const Slot& slot = column.slots[at(s)];
    const int type = stock_.places[at(slot.place)].type;
    const double limit = static_cast<double>(stock_.types[at(type)].memory.count);
    if (limit <= 0) continue;
    const int in_flight = schedule::schedule_of(sketch.schedule).in_flight({sketch.stages(), s, microbatches}).most;
    const Sounding& sounding = soundings_.of(type, slot.tensor, column.microbatch, sketch.recompute[at(s)]);
    const double needed = memory(sounding, sketch.cuts[at(s)], sketch.cuts[at(s + 1)], in_flight, columns_of(sketch)) +
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
    const Slot& slot = column.slots[at(stage)];
    const Sounding& s = soundings_.of(stock_.places[at(slot.place)].type, slot.tensor, column.microbatch, sketch.recompute[at(stage)]);
    const int each = (column.sequences + column.count - 1) / column.count, rest = each % column.microbatch;
    const double share = rest == 0 ? 1 : static_cast<double>(rest) / column.microbatch;
    least = std::min(least, share * pass(s, sketch.cuts[at(stage)], sketch.cuts[at(stage + 1)]));
  }
  return least;
}

/// Gradient sums and the optimizer, after the last pass.
double Estimator::after(const Sketch& sketch) {
  place(sketch);  // as it was dealt
  double sums = 0, update = 0;
  const double word = network_.word_sum(sketch, starts_);  // after the other sums of the first and the last stage
  for (int s = 0; s < sketch.stages(); ++s) {
    const int first = sketch.cuts[at(s)], last = sketch.cuts[at(s + 1)];
    const auto& of = network_.sums(sketch, s, starts_);
    const bool begins = first == 0, ends = last == stock_.request.model.layers();
    const double all = (begins ? of.embedding : 0) + blocks(first, last) * of.block + (ends ? of.head : 0);
    double hidden = 0;  // ours run beside the last backward pass, but for the first layer's
    if (!described_) hidden = std::min(backward_share * shortest_pass(sketch, s), all - (begins ? of.embedding : std::min(all, of.block)));
    sums = std::max(sums, all - hidden + (begins || ends ? word : 0));
    for (const Column& column : sketch.columns) {
      const Slot& slot = column.slots[at(s)];
      const Sounding& sounding = soundings_.of(stock_.places[at(slot.place)].type, slot.tensor, column.microbatch, sketch.recompute[at(s)]);
      update = std::max(update, (begins ? sounding.embedding.update : 0) + blocks(first, last) * sounding.block.update +
                                    (ends ? sounding.head.update : 0));
    }
  }
  return sums + update + (columns_of(sketch) > 1 ? reduction_host_ : 0);
}

Estimate Estimator::operator()(Sketch& sketch, double enough) {
  ++count_;
  Estimate estimate;
  if (!constrain(sketch)) return estimate;
  // Zero-bubble and interleaved plans are estimated as what they are made of.
  if (const auto& schedule = stock_.request.constraints.schedule)
    sketch.schedule = schedule == plan::ScheduleKind::gpipe ? *schedule : plan::ScheduleKind::one_f_one_b;
  if (!measure(sketch)) return estimate;
  estimate.seconds = sketch.dealing == Dealing::level ? deal_level(sketch) : deal_turns(sketch);
  if (stock_.by_throughput() && estimate.seconds > enough) {
    estimate.value = estimate.seconds;
    estimate.fits = true;
    return estimate;
  }
  Fullest fullest;
  for (std::size_t c = 0; c < sketch.columns.size(); ++c)
    if (c == 0 || !alike(sketch.columns[c], sketch.columns[c - 1]) || shares_differ(sketch.columns[c], sketch.columns[c - 1]))
      fullest = std::max(fullest, over_memory(sketch, sketch.columns[c]), [](auto& a, auto& b) { return a.bytes < b.bytes; });
  estimate.excess = fullest.bytes, estimate.full = fullest.share;
  estimate.fits = estimate.excess <= 0;
  estimate.seconds += after(sketch);
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
