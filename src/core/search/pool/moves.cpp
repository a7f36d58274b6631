#include "moves.hpp"

#include <algorithm>

namespace flotilla::search::pool {
namespace {

constexpr std::size_t most_zones = 8;

/// Rounded up.
int parts(int of, int size) { return (of + size - 1) / size; }

class Moves {
 public:
  Moves(const Sketch& sketch, const Stock& stock, bool levels, const std::function<bool(Sketch&&)>& visit)
      : sketch_{sketch}, stock_{stock}, levels_{levels}, visit_{visit} {}

  bool run() { return cuts() || recompute() || (level() ? turns() : microbatches()) || counts() || zones() || levelled(); }

 private:
  bool cuts() {
    if (stock_.request.restrictions.even_layers) return false;
    for (int s = 1; s < sketch_.stages(); ++s)
      for (const int step : {-1, 1}) {
        Sketch other = sketch_;
        other.cuts[at(s)] += step;
        const bool rises = other.cuts[at(s - 1)] < other.cuts[at(s)] && other.cuts[at(s)] < other.cuts[at(s + 1)];
        if (rises && visit_(std::move(other))) return true;
      }
    return false;
  }

  bool recompute() {
    for (std::size_t s = 0; s < sketch_.recompute.size(); ++s) {
      for (const auto less : {plan::Recompute::none, plan::Recompute::selective}) {
        if (sketch_.recompute[s] <= less) continue;
        Sketch other = sketch_;
        other.recompute[s] = less;
        if (visit_(std::move(other))) return true;
      }
    }
    return false;
  }

  bool microbatches() {
    const bool together = stock_.request.restrictions.one_microbatch_size;
    for (std::size_t c = 0; c < (together ? 1 : sketch_.columns.size()); ++c)
      for (const bool larger : {false, true}) {
        Sketch other = sketch_;
        bool sensible = true;
        for (std::size_t i = together ? 0 : c; i < (together ? other.columns.size() : c + 1); ++i) {
          int& m = other.columns[i].microbatch;
          sensible = sensible && (larger ? m * 2 <= std::min(stock_.request.global_batch, largest_microbatch) : m > 1);
          m = larger ? m * 2 : std::max(1, m / 2);
        }
        if (sensible && visit_(std::move(other))) return true;
      }
    return false;
  }

  bool level() const { return sketch_.dealing == Dealing::level; }

  /// One more microbatch in each share of a column, or one fewer.
  bool turns() {
    for (std::size_t c = 0; c < sketch_.columns.size(); ++c) {
      const Column& column = sketch_.columns[c];
      const int each = parts(column.sequences, column.count), now = parts(each, column.microbatch);
      for (const int turns : {now + 1, now - 1}) {
        if (turns < 1 || turns > each) continue;
        const int microbatch = parts(each, turns);
        if (microbatch == column.microbatch || microbatch > largest_microbatch) continue;
        Sketch other = sketch_;
        other.columns[c].microbatch = microbatch;
        if (visit_(std::move(other))) return true;
      }
    }
    return false;
  }

  /// With microbatches of at most the size that they have, of twice, and of half of it.
  bool levelled() {
    if (!levels_ || level()) return false;
    const int most = std::min(stock_.request.global_batch, largest_microbatch);
    for (const auto& [times, part] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
      Sketch other = sketch_;
      other.dealing = Dealing::level;
      for (Column& column : other.columns) column.microbatch = std::clamp(column.microbatch * times / part, 1, most);
      if (visit_(std::move(other))) return true;
    }
    return false;
  }

  bool counts() {
    for (std::size_t c = 0; c < sketch_.columns.size(); ++c) {
      const int count = sketch_.columns[c].count;
      if (sketch_.columns.size() > 1) {
        Sketch other = sketch_;
        other.columns.erase(other.columns.begin() + static_cast<std::ptrdiff_t>(c));
        if (visit_(std::move(other))) return true;
      }
      const int more = room_for(sketch_.columns[c]);
      for (const int other_count : {count - 1, count * 7 / 8, count / 2, count + 1, count + (more + 1) / 2, count + more}) {
        if (other_count < 1 || other_count == count || other_count > count + more) continue;
        Sketch other = sketch_;
        other.columns[c].count = other_count;
        if (other_count > count && !stock_.holds(other)) continue;
        if (visit_(std::move(other))) return true;
      }
    }
    return false;
  }

  /// All that stands in one zone moves to another, which is as large in the types that it takes and of which nothing is used.
  bool zones() {
    if (stock_.zones.size() > most_zones) return false;
    for (const std::string& from : stock_.zones)
      for (const std::string& to : stock_.zones) {
        Sketch other = sketch_;
        if (from != to && relocate(other, from, to) && visit_(std::move(other))) return true;
      }
    return false;
  }

  bool relocate(Sketch& sketch, const std::string& from, const std::string& to) const {
    bool moved = false;
    for (Column& column : sketch.columns)
      for (Slot& slot : column.slots) {
        const Place& place = stock_.places[at(slot.place)];
        if (place.zone == to) return false;
        if (place.zone != from) continue;
        const auto& places = stock_.types[at(place.type)].places;
        const auto there = std::ranges::find_if(places, [&](int p) { return stock_.places[at(p)].zone == to; });
        if (there == places.end()) return false;
        slot.place = *there;
        moved = true;
      }
    return moved && stock_.holds(sketch);
  }

  /// More such columns that the pool could hold.
  int room_for(const Column& column) const {
    std::vector<int> need(stock_.places.size(), 0), left;
    for (const Place& place : stock_.places) left.push_back(place.count);
    for (const Column& other : sketch_.columns)
      for (const Slot& slot : other.slots) left[at(slot.place)] -= other.count * slot.tensor;
    for (const Slot& slot : column.slots) need[at(slot.place)] += slot.tensor;
    int more = 1 << 30;
    for (std::size_t p = 0; p < need.size(); ++p)
      if (need[p] > 0) more = std::min(more, std::max(0, left[p]) / need[p]);
    return more;
  }

  const Sketch& sketch_;
  const Stock& stock_;
  bool levels_;
  const std::function<bool(Sketch&&)>& visit_;
};

class Trades {
 public:
  Trades(const Sketch& sketch, const Stock& stock, const std::function<void(Sketch&&)>& visit)
      : sketch_{sketch}, stock_{stock}, visit_{visit} {}

  void run() {
    for (const auto more : {plan::Recompute::selective, plan::Recompute::full}) {
      recompute(more, 1);
      if (sketch_.dealing == Dealing::level) recompute(more, 1.5);
      recompute(more, 2);
      for (std::size_t s = 0; s < sketch_.recompute.size() && sketch_.stages() > 1; ++s) recompute_one(more, s);
    }
    for (const bool wider : {true, false}) {
      if (!stock_.request.restrictions.one_tensor_degree_per_stage)
        for (std::size_t c = 0; c < sketch_.columns.size(); ++c) regroup(c, c + 1, wider);
      if (sketch_.columns.size() > 1 || stock_.request.restrictions.one_tensor_degree_per_stage) regroup(0, sketch_.columns.size(), wider);
    }
  }

 private:
  bool has_blocks(std::size_t s) const { return std::min(sketch_.cuts[s + 1], sketch_.cuts.back() - 1) > std::max(sketch_.cuts[s], 1); }

  void recompute(plan::Recompute more, double times) {
    Sketch other = sketch_;
    for (std::size_t s = 0; s < other.recompute.size(); ++s)
      if (has_blocks(s)) other.recompute[s] = std::max(other.recompute[s], more);
    for (Column& column : other.columns) {
      column.microbatch = static_cast<int>(column.microbatch * times);
      if (column.microbatch > std::min(stock_.request.global_batch, largest_microbatch)) return;
    }
    if (times > 1 || other.recompute != sketch_.recompute) visit_(std::move(other));
  }

  void recompute_one(plan::Recompute more, std::size_t stage) {
    if (sketch_.recompute[stage] >= more || !has_blocks(stage)) return;
    Sketch other = sketch_;
    other.recompute[stage] = more;
    visit_(std::move(other));
  }

  /// Columns [first, last) in groups of twice the size, or of half.
  void regroup(std::size_t first, std::size_t last, bool wider) {
    Sketch other = sketch_;
    for (std::size_t c = first; c < last; ++c) {
      Column& column = other.columns[c];
      if (wider && column.count < 2) return;
      column.count = wider ? column.count / 2 : column.count * 2;
      for (Slot& slot : column.slots) {
        if (wider ? slot.tensor * 2 > stock_.request.model.groups() : slot.tensor == 1) return;
        slot.tensor = wider ? slot.tensor * 2 : slot.tensor / 2;
      }
    }
    if (stock_.holds(other)) visit_(std::move(other));
  }

  const Sketch& sketch_;
  const Stock& stock_;
  const std::function<void(Sketch&&)>& visit_;
};

bool fits_in_chunks(const Sketch& sketch) {
  for (int s = 0; s < sketch.stages(); ++s)
    if (sketch.cuts[at(s + 1)] - sketch.cuts[at(s)] < sketch.chunks) return false;
  return true;
}

}  // namespace

bool for_each_move(const Sketch& sketch, const Stock& stock, bool levels, const std::function<bool(Sketch&&)>& visit) {
  return Moves{sketch, stock, levels, visit}.run();
}

void for_each_execution(const Sketch& sketch, const Stock& stock, bool may_shard, const std::function<void(Sketch&&)>& visit) {
  const Constraints& fixed = stock.request.constraints;
  if (may_shard && !fixed.shard_optimizer && columns_of(sketch) > 1) {
    Sketch other = sketch;
    other.shard_optimizer = !sketch.shard_optimizer.value_or(false);
    visit(std::move(other));
  }
  if (!fixed.sequence_parallel && (sketch.sequence_parallel || has_tensor_groups(sketch))) {
    Sketch other = sketch;
    other.sequence_parallel = !other.sequence_parallel;
    visit(std::move(other));
  }
  if (fixed.schedule) return;
  const auto offer = [&](plan::ScheduleKind schedule, int chunks) {
    Sketch other = sketch;
    other.schedule = schedule, other.chunks = chunks;
    if (!(other == sketch) && fits_in_chunks(other)) visit(std::move(other));
  };
  using enum plan::ScheduleKind;
  for (const auto whole : {one_f_one_b, zero_bubble, gpipe})
    if (sketch.stages() > 1 || (sketch.chunks > 1 && whole == one_f_one_b)) offer(whole, 1);
  for (const int chunks : {sketch.chunks - 1, sketch.chunks + 1})
    if (chunks > 1) offer(interleaved, chunks);
}

void for_each_trade(const Sketch& sketch, const Stock& stock, const std::function<void(Sketch&&)>& visit) {
  Trades{sketch, stock, visit}.run();
}

}  // namespace flotilla::search::pool
