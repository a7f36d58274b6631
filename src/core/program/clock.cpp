// 1F1B for stages that are dealt unlike (turns.hpp).
#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "index.hpp"
#include "turns.hpp"

namespace flotilla::program {
namespace {

constexpr std::int64_t share_time = std::int64_t{1} << 30;  // ticks that a replica's forward passes take
constexpr int sent_copies = 2;                              // instances of what a stage sends (class_buffers.cpp)

/// A microbatch of a neighbouring stage that shares sequences with one of ours.
struct Partner {
  int replica = 0, microbatch = 0;
};

struct Replica {
  std::vector<plan::Microbatch> microbatches;
  std::vector<std::vector<Partner>> before, after;  ///< by microbatch: of the stages on either side
  std::int64_t share = 0;                           ///< sequences
  int depth = 1;
  Halves halves;
  int deferred = 0;                           ///< weights' halves
  int forwards = 0, backwards = 0;            ///< begun
  int forwards_done = 0, backwards_done = 0;  ///< ended
  bool busy = false;
  std::vector<bool> passes;  ///< in order; true: backward

  int count() const { return static_cast<int>(microbatches.size()); }
};

void add_pass(std::vector<Turns>& turns, bool backward, int microbatch) {
  if (backward && !turns.empty()) {
    Turns& last = turns.back();
    if (last.backward < 0 && last.forward >= 0) {
      // The forward pass just before becomes the first half of a pair.
      const int forward = last.forward + last.repeat - 1;
      if (--last.repeat == 0) turns.pop_back();
      if (!turns.empty() && turns.back().forward >= 0 && turns.back().backward >= 0 &&
          turns.back().forward + turns.back().repeat == forward && turns.back().backward + turns.back().repeat == microbatch)
        ++turns.back().repeat;
      else
        turns.push_back({1, forward, microbatch});
      return;
    }
    if (last.forward < 0) {
      ++last.repeat;
      return;
    }
  }
  if (!backward && !turns.empty() && turns.back().backward < 0) {
    ++turns.back().repeat;
    return;
  }
  turns.push_back({1, backward ? -1 : microbatch, backward ? microbatch : -1});
}

PassOrder order_of(const Replica& replica) {
  PassOrder order;
  int forwards = 0, backwards = 0;
  for (const bool backward : replica.passes) {
    add_pass(order.turns, backward, backward ? backwards : forwards);
    ++(backward ? backwards : forwards);
  }
  order.in_flight = std::max(1, replica.depth);
  order.deferred = replica.halves.split ? replica.deferred : -1;
  return order;
}

class Clock {
 public:
  Clock(const std::vector<plan::Deal>& deals, const std::vector<Halves>& halves) {
    for (const plan::Deal& deal : deals) {
      const Halves how = halves.empty() ? Halves{} : halves[stages_.size()];
      auto& stage = stages_.emplace_back(deal.size());
      for (std::size_t r = 0; r < deal.size(); ++r) {
        stage[r].microbatches = deal[r];
        stage[r].halves = how;
        stage[r].before.resize(deal[r].size());
        stage[r].after.resize(deal[r].size());
        for (const auto& m : deal[r]) stage[r].share += m.count;
      }
    }
    for (std::size_t s = 0; s + 1 < stages_.size(); ++s) pair(stages_[s], stages_[s + 1]);
    set_depths();
    set_deferred();
  }

  std::vector<std::vector<PassOrder>> run() {
    for (int s = 0; s < stage_count(); ++s) begin(s);
    for (;;) {
      while (!ends_.empty()) end_next();
      if (all_done()) break;
      for (int s = stage_count() - 1; s >= 0; --s) begin(s);  // whom a far stage has freed
      if (ends_.empty()) deepen();
    }
    std::vector<std::vector<PassOrder>> orders;
    for (const auto& stage : stages_) {
      auto& of_stage = orders.emplace_back();
      for (const Replica& replica : stage) of_stage.push_back(order_of(replica));
    }
    return orders;
  }

 private:
  using Stage = std::vector<Replica>;
  enum class Work { forward, backward, weights };
  struct End {
    std::int64_t time = 0;
    int stage = 0, replica = 0;
    Work work = Work::forward;
    auto operator<=>(const End&) const = default;
  };

  int stage_count() const { return static_cast<int>(stages_.size()); }
  Stage& stage(int s) { return stages_[at(s)]; }

  struct Entry {
    plan::Microbatch microbatch;
    Partner who;
  };
  static std::vector<Entry> sorted(const Stage& stage) {
    std::vector<Entry> all;
    for (std::size_t r = 0; r < stage.size(); ++r)
      for (int m = 0; m < stage[r].count(); ++m) all.push_back({stage[r].microbatches[at(m)], {static_cast<int>(r), m}});
    std::ranges::sort(all, {}, [](const Entry& e) { return e.microbatch.first; });
    return all;
  }

  static void pair(Stage& from, Stage& to) {
    const auto sent = sorted(from), taken = sorted(to);
    for (std::size_t a = 0, b = 0; a < sent.size() && b < taken.size();) {
      from[at(sent[a].who.replica)].after[at(sent[a].who.microbatch)].push_back(taken[b].who);
      to[at(taken[b].who.replica)].before[at(taken[b].who.microbatch)].push_back(sent[a].who);
      const int end_a = sent[a].microbatch.last(), end_b = taken[b].microbatch.last();
      if (end_a <= end_b) ++a;
      if (end_b <= end_a) ++b;
    }
  }

  /// The part of the whole that a replica's microbatch is, at most; in ticks.
  static std::int64_t grain(const Stage& stage) {
    std::int64_t most = 0;
    for (const Replica& replica : stage)
      if (replica.count() > 0) most = std::max(most, share_time / replica.count());
    return most;
  }

  void set_depths() {
    std::int64_t below = 0;  // from the stage at hand to the last and back
    way_.resize(stages_.size());
    for (int s = stage_count() - 1; s >= 0; --s) {
      const std::int64_t own = grain(stage(s)), next = s + 1 < stage_count() ? grain(stage(s + 1)) : 0;
      below += own + std::max<std::int64_t>(0, next - own);
      way_[at(s)] = below;
      for (Replica& replica : stage(s))
        replica.depth =
            std::clamp(static_cast<int>((below * replica.count() + share_time - 1) / share_time), 1, std::max(1, replica.count()));
    }
  }

  void set_deferred() {
    for (int s = 0; s < stage_count(); ++s)
      for (Replica& replica : stage(s)) {
        const std::int64_t short_of = (way_.front() - way_[at(s)]) * replica.count();
        replica.deferred = replica.halves.deferred((short_of + share_time / 2) / share_time);
      }
  }

  bool has_room_forward(int s, const Partner& to) {
    const Replica& receiver = stage(s)[at(to.replica)];
    return to.microbatch < receiver.backwards_done + std::max(receiver.depth, sent_copies);
  }
  /// The buffer that a gradient comes into is the one that the stage's own gradient leaves from.
  bool has_room_backward(int s, const Partner& to) {
    const Replica& receiver = stage(s)[at(to.replica)];
    if (to.microbatch >= receiver.backwards_done + sent_copies) return false;
    return to.microbatch < sent_copies || has_left_backward(s, receiver, to.microbatch - sent_copies);
  }
  bool has_left_backward(int s, const Replica& sender, int microbatch) {
    return std::ranges::all_of(sender.before[at(microbatch)], [&](const Partner& p) { return has_room_backward(s - 1, p); });
  }

  bool may_forward(int s, const Replica& replica, bool any_depth) {
    const int m = replica.forwards;
    if (m >= replica.count() || (!any_depth && m - replica.backwards_done >= replica.depth)) return false;
    for (const Partner& p : replica.before[at(m)])
      if (p.microbatch >= stage(s - 1)[at(p.replica)].forwards_done) return false;
    if (m < sent_copies) return true;
    return std::ranges::all_of(replica.after[at(m - sent_copies)], [&](const Partner& p) { return has_room_forward(s + 1, p); });
  }

  bool may_backward(int s, const Replica& replica) {
    const int m = replica.backwards;
    if (m >= replica.forwards_done) return false;
    for (const Partner& p : replica.after[at(m)])
      if (p.microbatch >= stage(s + 1)[at(p.replica)].backwards_done) return false;
    return m < sent_copies || has_left_backward(s, replica, m - sent_copies);
  }

  void begin(int s) {
    if (s < 0 || s >= stage_count()) return;
    for (std::size_t r = 0; r < stage(s).size(); ++r) {
      Replica& replica = stage(s)[r];
      if (replica.busy) continue;
      const bool backward = may_backward(s, replica);
      if (!backward && !may_forward(s, replica, false)) continue;
      begin(s, static_cast<int>(r), backward);
    }
  }

  void begin(int s, int r, bool backward) {
    Replica& replica = stage(s)[at(r)];
    int& begun = backward ? replica.backwards : replica.forwards;
    const std::int64_t time = time_of(replica, begun);
    ++begun;
    replica.busy = true;
    replica.passes.push_back(backward);
    const bool whole = backward && !replica.halves.split;
    ends_.push({now_ + (whole ? 2 * time : time), s, r, backward ? Work::backward : Work::forward});
  }

  static std::int64_t time_of(const Replica& replica, int microbatch) {
    return replica.microbatches[at(microbatch)].count * share_time / replica.share;
  }

  void end(const End& ended) {
    Replica& replica = stage(ended.stage)[at(ended.replica)];
    if (ended.work == Work::forward) ++replica.forwards_done;
    if (ended.work == Work::backward) ++replica.backwards_done;
    const int weights = replica.backwards_done - 1 - replica.deferred;  // whose time has come
    replica.busy = ended.work == Work::backward && replica.halves.split && weights >= 0;
    if (replica.busy) ends_.push({now_ + time_of(replica, weights), ended.stage, ended.replica, Work::weights});
  }

  /// All that ends at one moment, then all that may begin.
  void end_next() {
    now_ = ends_.top().time;
    std::vector<int> touched;
    while (!ends_.empty() && ends_.top().time == now_) {
      const End ended = ends_.top();
      ends_.pop();
      end(ended);
      touched.push_back(ended.stage);
    }
    // Who may begin depends on the stages beside; last stages first, since they free the others.
    std::vector<int> looked_at;
    for (int s : touched)
      for (int near : {s - 1, s, s + 1, s + 2}) looked_at.push_back(near);
    std::ranges::sort(looked_at, std::greater<>{});
    looked_at.erase(std::ranges::unique(looked_at).begin(), looked_at.end());
    for (int s : looked_at) begin(s);
  }

  bool all_done() const {
    return std::ranges::all_of(stages_, [](const Stage& stage) {
      return std::ranges::all_of(stage, [](const Replica& r) { return r.backwards_done == r.count(); });
    });
  }

  /// Nothing moves: some depth is too small for what a later stage gathers. The one whose next sequences come first gets one more.
  void deepen() {
    Replica* chosen = nullptr;
    int chosen_stage = 0;
    for (int s = 0; s < stage_count(); ++s)
      for (Replica& replica : stage(s)) {
        if (replica.forwards >= replica.count()) continue;
        const bool held = replica.forwards - replica.backwards_done >= replica.depth;
        if (!held ||
            (chosen != nullptr && replica.microbatches[at(replica.forwards)].first >= chosen->microbatches[at(chosen->forwards)].first))
          continue;
        chosen = &replica;
        chosen_stage = s;
      }
    FLOTILLA_ASSERT(chosen != nullptr, "the passes of ", stage_count(), " stages cannot be put in order");
    ++chosen->depth;
    for (int s : {chosen_stage + 1, chosen_stage, chosen_stage - 1}) begin(s);
  }

  std::vector<Stage> stages_;
  std::vector<std::int64_t> way_;  ///< by stage: of a microbatch from there to the last stage and back
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::int64_t now_ = 0;
};

}  // namespace

std::vector<std::vector<PassOrder>> orders_by_clock(const std::vector<plan::Deal>& deals, const std::vector<Halves>& halves) {
  return Clock{deals, halves}.run();
}

}  // namespace flotilla::program
