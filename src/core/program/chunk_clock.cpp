// The passes of devices that hold several chunks, on a clock (chunks.hpp).
#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "chunks.hpp"
#include "flotilla/base/error.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

constexpr std::int64_t share_time = std::int64_t{1} << 30;  // ticks that a replica's forward passes through a chunk take

/// A microbatch of a neighbouring stage that shares sequences with one of ours.
struct Partner {
  int replica = 0, microbatch = 0;
};

/// How far a chunk is: passes begun and ended.
struct Progress {
  int forwards = 0, backwards = 0, forwards_done = 0, backwards_done = 0;
};

struct Device {
  std::vector<plan::Microbatch> microbatches;
  std::vector<std::vector<Partner>> before, after;  ///< by microbatch: of the own stages on either side
  std::int64_t share = 0;                           ///< sequences
  int depth = 1, in_flight = 0;                     ///< passes
  bool busy = false;
  std::vector<Progress> chunks;
  std::vector<TimedPass> passes;

  int count() const { return static_cast<int>(microbatches.size()); }
};

/// What is done first: the earliest group of microbatches, there the chunk that comes first on the way, there the microbatch.
struct Urgency {
  std::int64_t group = 0;
  int way = 0, microbatch = 0;
  auto operator<=>(const Urgency&) const = default;
};

struct Choice {
  Urgency urgency;
  int chunk = -1;  ///< none
  bool backward = false, ready = false;
};

class Clock {
 public:
  Clock(const std::vector<plan::Deal>& deals, const std::vector<Boundary>& boundaries, int chunks, bool training, bool overtake)
      : depth_{static_cast<int>(deals.size())}, chunks_{chunks}, training_{training}, overtake_{overtake} {
    for (const plan::Deal& deal : deals) {
      auto& stage = stages_.emplace_back(deal.size());
      for (std::size_t r = 0; r < deal.size(); ++r) add(stage[r], deal[r]);
    }
    for (int p = 0; p < depth_; ++p) pair(boundaries[at(p)], stages_[at(p)], stages_[at((p + 1) % depth_)]);
    for (const Device& device : stages_.front()) total_ += device.share;
    set_depths();
  }

  /// Nothing where strict order comes to a standstill.
  std::vector<std::vector<std::vector<TimedPass>>> run() {
    for (int p = 0; p < depth_; ++p)
      for (std::size_t r = 0; r < stages_[at(p)].size(); ++r) begin(p, static_cast<int>(r));
    for (;;) {
      while (!ends_.empty()) end_next();
      if (all_done()) break;
      if (!overtake_) return {};
      deepen();
    }
    std::vector<std::vector<std::vector<TimedPass>>> passes;
    for (auto& stage : stages_) {
      auto& of_stage = passes.emplace_back();
      for (Device& device : stage) of_stage.push_back(std::move(device.passes));
    }
    return passes;
  }

  std::int64_t now() const { return now_; }

 private:
  struct End {
    std::int64_t time = 0;
    int stage = 0, replica = 0, chunk = 0, microbatch = 0;
    bool backward = false;
    auto operator<=>(const End&) const = default;
  };

  void add(Device& device, const std::vector<plan::Microbatch>& microbatches) const {
    device.microbatches = microbatches;
    device.before.resize(microbatches.size());
    device.after.resize(microbatches.size());
    device.chunks.resize(at(chunks_));
    for (const auto& m : microbatches) device.share += m.count;
  }

  static void pair(const Boundary& boundary, std::vector<Device>& from, std::vector<Device>& to) {
    const auto meet = [&](const Crossing& c) {
      from[at(c.replica)].after[at(c.microbatch)].push_back({c.next_replica, c.next_microbatch});
      to[at(c.next_replica)].before[at(c.next_microbatch)].push_back({c.replica, c.microbatch});
    };
    for (const Crossing& crossing : boundary.crossings) meet(crossing);
    for (std::size_t r = 0; boundary.alike && r < from.size(); ++r)
      for (int m = 0; m < from[r].count(); ++m) meet({static_cast<int>(r), m, static_cast<int>(r), m, {}});
  }

  /// The part of the whole that a replica's microbatch is, at most; in ticks.
  static std::int64_t grain(const std::vector<Device>& stage) {
    std::int64_t most = 0;
    for (const Device& device : stage)
      if (device.count() > 0) most = std::max(most, share_time / device.count());
    return most;
  }

  /// As many passes as cover the way of a microbatch to the last own stage and back, and once through all of them for every other chunk;
  /// where microbatches are gathered on the way, the wait for them too.
  void set_depths() {
    const std::int64_t wrap = std::max<std::int64_t>(0, grain(stages_.front()) - grain(stages_.back()));
    std::vector<std::int64_t> below(stages_.size());  // from the own stage at hand to the last
    std::int64_t sum = 0;
    for (int p = depth_ - 1; p >= 0; --p) {
      const std::int64_t own = grain(stages_[at(p)]), next = p + 1 < depth_ ? grain(stages_[at(p + 1)]) : 0;
      sum += own + std::max<std::int64_t>(0, next - own);
      below[at(p)] = sum;
      least_count_ = own > 0 ? std::min(least_count_, share_time / own) : least_count_;
    }
    for (int p = 0; p < depth_; ++p)
      for (Device& device : stages_[at(p)]) {
        const std::int64_t way = 2 * (below[at(p)] - grain(stages_[at(p)])) + (chunks_ - 1) * (sum + wrap);
        device.depth = static_cast<int>((way * device.count() + share_time - 1) / share_time) + 1;
      }
  }

  Device& device(int p, int r) { return stages_[at(p)][at(r)]; }
  const Device& neighbour(int p, int r) const { return stages_[at((p + depth_) % depth_)][at(r)]; }

  std::int64_t group_of(const Device& device, int microbatch) const {
    return std::int64_t{device.microbatches[at(microbatch)].first} * least_count_ / (total_ * depth_);
  }

  bool has_come_forward(int p, const Device& here, int chunk, int m) const {
    const int from = p > 0 ? chunk : chunk - 1;
    return from < 0 || std::ranges::all_of(here.before[at(m)], [&](const Partner& partner) {
             return partner.microbatch < neighbour(p - 1, partner.replica).chunks[at(from)].forwards_done;
           });
  }

  bool has_come_backward(int p, const Device& here, int chunk, int m) const {
    const int from = p + 1 < depth_ ? chunk : chunk + 1;
    return m < here.chunks[at(chunk)].forwards_done &&
           (from >= chunks_ || std::ranges::all_of(here.after[at(m)], [&](const Partner& partner) {
              return partner.microbatch < neighbour(p + 1, partner.replica).chunks[at(from)].backwards_done;
            }));
  }

  /// The most urgent pass of that direction which is not made yet; where passes may overtake, of those that can begin.
  Choice most_urgent(int p, const Device& here, bool backward) const {
    Choice best;
    for (int c = 0; c < chunks_; ++c) {
      const int m = backward ? here.chunks[at(c)].backwards : here.chunks[at(c)].forwards;
      if (m >= here.count()) continue;
      const Urgency urgency{group_of(here, m), backward ? chunks_ - 1 - c : c, m};
      if (best.chunk >= 0 && best.urgency < urgency) continue;
      const bool ready = backward ? has_come_backward(p, here, c, m) : has_come_forward(p, here, c, m);
      if (ready || !overtake_) best = {urgency, c, backward, ready};
    }
    return best;
  }

  /// Forward while fewer passes than its depth are in flight, else back.
  Choice next(int p, const Device& here) const {
    Choice choice;
    if (!training_ || here.in_flight < here.depth) choice = most_urgent(p, here, false);
    return choice.chunk >= 0 || !training_ ? choice : most_urgent(p, here, true);
  }

  void begin(int p, int r) {
    Device& here = device(p, r);
    if (here.busy) return;
    const Choice choice = next(p, here);
    if (!choice.ready) return;
    Progress& progress = here.chunks[at(choice.chunk)];
    const int m = choice.backward ? progress.backwards++ : progress.forwards++;
    const std::int64_t time = here.microbatches[at(m)].count * share_time / here.share;
    const std::int64_t end = now_ + (choice.backward ? 2 * time : time);
    here.busy = true;
    here.passes.push_back({choice.chunk, m, choice.backward, now_, end});
    ends_.push({end, p, r, choice.chunk, m, choice.backward});
    if (!choice.backward) ++here.in_flight;
  }

  /// All that ends at one moment, then all that may begin: the devices themselves and whom their microbatches go to.
  void end_next() {
    now_ = ends_.top().time;
    std::vector<std::pair<int, int>> touched;
    while (!ends_.empty() && ends_.top().time == now_) {
      const End end = ends_.top();
      ends_.pop();
      Device& here = device(end.stage, end.replica);
      Progress& progress = here.chunks[at(end.chunk)];
      ++(end.backward ? progress.backwards_done : progress.forwards_done);
      if (end.backward) --here.in_flight;
      here.busy = false;
      touched.push_back({end.stage, end.replica});
      const int there = (end.stage + (end.backward ? depth_ - 1 : 1)) % depth_;
      for (const Partner& partner : (end.backward ? here.before : here.after)[at(end.microbatch)])
        touched.push_back({there, partner.replica});
    }
    std::ranges::sort(touched);
    touched.erase(std::ranges::unique(touched).begin(), touched.end());
    for (const auto& [p, r] : touched) begin(p, r);
  }

  bool all_done() const {
    return std::ranges::all_of(stages_, [&](const auto& stage) {
      return std::ranges::all_of(stage, [&](const Device& d) {
        return std::ranges::all_of(d.chunks,
                                   [&](const Progress& c) { return (training_ ? c.backwards_done : c.forwards_done) == d.count(); });
      });
    });
  }

  /// Nothing moves: some depth is too small for what a later stage gathers. Of those who could go forward, the one whose pass is the most
  /// urgent may have one more in flight.
  void deepen() {
    Urgency least;
    int stage = -1, replica = -1;
    for (int p = 0; p < depth_; ++p)
      for (std::size_t r = 0; r < stages_[at(p)].size(); ++r) {
        const Choice choice = most_urgent(p, stages_[at(p)][r], false);
        if (!choice.ready || (stage >= 0 && least <= choice.urgency)) continue;
        least = choice.urgency;
        stage = p, replica = static_cast<int>(r);
      }
    FLOTILLA_ASSERT(stage >= 0, "the passes of ", depth_, " devices in a row with ", chunks_, " stages each cannot be put in order");
    ++device(stage, replica).depth;
    begin(stage, replica);
  }

  int depth_, chunks_;
  bool training_, overtake_;
  std::vector<std::vector<Device>> stages_;
  std::int64_t total_ = 0;                 ///< sequences
  std::int64_t least_count_ = share_time;  ///< of microbatches that a device has
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::int64_t now_ = 0;
};

}  // namespace

std::vector<std::vector<std::vector<TimedPass>>> passes_by_clock(const std::vector<plan::Deal>& deals,
                                                                 const std::vector<Boundary>& boundaries, int chunks, bool training) {
  const auto run = [&](bool overtake) {
    Clock clock{deals, boundaries, chunks, training, overtake};
    auto passes = clock.run();
    return std::pair{clock.now(), std::move(passes)};
  };
  auto strict = run(false), free = run(true);
  return std::move(strict.second.empty() || free.first < strict.first ? free : strict).second;
}

}  // namespace flotilla::program
