// Interleaved 1F1B (Narayanan et al. 2021, section 2.2: https://arxiv.org/abs/2104.04473): a device holds several stages; groups of as many
// microbatches as there are devices go through one of its chunks after the other.
#include <algorithm>
#include <compare>

#include "flotilla/base/error.hpp"
#include "index.hpp"
#include "list_scheduler.hpp"
#include "schedules.hpp"

namespace flotilla::schedule {
namespace {

/// What is done first: the earliest group of microbatches, there the chunk that comes first on the way, there the microbatch.
struct Urgency {
  std::int64_t group = 0;
  int way = 0, microbatch = 0;
  auto operator<=>(const Urgency&) const = default;
};

struct UrgentPass {
  Urgency urgency;
  Pass pass;
  bool found = false, ready = false;
};

/// A device goes forward while fewer passes than its limit are in flight, else back; each way in the order of Urgency. Any number of
/// microbatches, and stages that are dealt unlike; where they are dealt alike, groups, limits and order are those of Narayanan et al.
class GroupByGroup : public PassRule {
 public:
  /// `overtake`: a pass that cannot begin yet may be overtaken by a less urgent one that can.
  explicit GroupByGroup(bool overtake) : overtake_{overtake} {}

  /// As many passes as cover the way of a microbatch to the last own stage and back, and once through all of them for every other chunk;
  /// where microbatches are gathered on the way, the wait for them too.
  void prepare(PipelineState& state) override {
    const auto grains = state.grains(), below = under_way(grains);
    for (const std::int64_t grain : grains)
      if (grain > 0) least_count_ = std::min(least_count_, whole_batch / grain);
    for (const ScheduledDevice& device : state.stages().front()) total_ += device.sequences;
    const std::int64_t wrap = std::max<std::int64_t>(0, grains.front() - grains.back());
    for (std::size_t p = 0; p < grains.size(); ++p)
      for (ScheduledDevice& device : state.stages()[p]) {
        const std::int64_t way = 2 * (below[p] - grains[p]) + (state.chunks() - 1) * (below.front() + wrap);
        device.limit = static_cast<int>((way * device.count() + whole_batch - 1) / whole_batch) + 1;
      }
  }

  std::optional<Pass> next(const PipelineState& state, int stage, int replica) const override {
    const ScheduledDevice& here = state.device(stage, replica);
    UrgentPass choice;
    if (!state.training() || here.in_flight < here.limit) choice = most_urgent(state, stage, here, Work::forward);
    if (!choice.found && state.training()) choice = most_urgent(state, stage, here, Work::backward);
    return choice.ready ? std::optional{choice.pass} : std::nullopt;
  }

  /// Some limit is too small for what a later stage gathers. Of those who could go forward, the one whose pass is the most urgent may have
  /// one more in flight. Strict order has no way out.
  bool relax(PipelineState& state) override {
    if (!overtake_) return false;
    UrgentPass least;
    ScheduledDevice* chosen = nullptr;
    for (int p = 0; p < state.depth(); ++p)
      for (ScheduledDevice& device : state.stages()[at(p)]) {
        const UrgentPass choice = most_urgent(state, p, device, Work::forward);
        if (!choice.ready || (chosen != nullptr && least.urgency <= choice.urgency)) continue;
        least = choice;
        chosen = &device;
      }
    FLOTILLA_ASSERT(chosen != nullptr, "the passes of ", state.depth(), " devices in a row with ", state.chunks(),
                    " stages each cannot be put in order");
    ++chosen->limit;
    return true;
  }

 private:
  std::int64_t group_of(const PipelineState& state, const ScheduledDevice& device, int microbatch) const {
    return std::int64_t{device.microbatches[at(microbatch)].first} * least_count_ / (total_ * state.depth());
  }

  /// The most urgent pass of that direction which is not made yet; where passes may overtake, of those that can begin.
  UrgentPass most_urgent(const PipelineState& state, int stage, const ScheduledDevice& here, Work work) const {
    UrgentPass best;
    const bool back = work == Work::backward;
    for (int c = 0; c < state.chunks(); ++c) {
      const int m = back ? here.chunks[at(c)].backwards : here.chunks[at(c)].forwards;
      if (m >= here.count()) continue;
      const Urgency urgency{group_of(state, here, m), back ? state.chunks() - 1 - c : c, m};
      if (best.found && best.urgency < urgency) continue;
      const Pass pass{work, c, m};
      const bool ready = state.is_ready(stage, here, pass);
      if (ready || !overtake_) best = {urgency, pass, true, ready};
    }
    return best;
  }

  bool overtake_;
  std::int64_t total_ = 0;                  // sequences
  std::int64_t least_count_ = whole_batch;  // of microbatches that a device has
};

/// The k-th forward (or backward) pass of a device.
Pass kth_pass(const Position& p, int k, Work work) {
  const int round = k / (p.depth * p.chunks), within = k % (p.depth * p.chunks), chunk = within / p.depth;
  return {work, work == Work::backward ? p.chunks - 1 - chunk : chunk, round * p.depth + within % p.depth};
}

class Interleaved : public Schedule {
 public:
  /// For a multiple of as many microbatches as there are devices, in the order of Megatron-Core. (Its predecessor did all forward passes
  /// first where there were just as many.)
  PassOrder order(const Position& p) const override {
    const int all = p.microbatches * p.chunks, ahead = forwards_ahead(p);
    PassOrder order;
    order.in_flight = in_flight(p).most;
    const auto add = [&](int k, Work work) {
      const Pass pass = kth_pass(p, k, work);
      const bool back = work == Work::backward;
      order.loops.push_back({1, back ? -1 : pass.microbatch, back ? pass.microbatch : -1, -1, pass.chunk});
    };
    for (int k = 0; k < all + ahead; ++k) {
      if (k < all) add(k, Work::forward);
      if (k >= ahead) add(k - ahead, Work::backward);
    }
    return order;
  }

  /// How many there are of one of the stages of a device nobody has counted but the list scheduler.
  InFlight in_flight(const Position& p) const override { return {1, std::max(1, p.microbatches)}; }

  int passes_in_flight(const Position& p) const override { return std::min(p.microbatches * p.chunks, forwards_ahead(p) + 1); }

  /// With chunks the first microbatch comes to the last device so much sooner. Microbatches go through the chunks in groups of as many as
  /// there are devices; the last group, which may be smaller, takes no less time for all chunks but one.
  double fill(int chunks, int microbatches, int stages) const override {
    const int groups = (microbatches + stages - 1) / stages, of_last = (microbatches - 1) % stages;
    return (groups * stages + static_cast<double>(of_last) / chunks - microbatches) / (stages - 1);
  }

  std::vector<std::unique_ptr<PassRule>> rules(const std::vector<Fraction>&) const override {
    std::vector<std::unique_ptr<PassRule>> rules;
    for (const bool overtake : {false, true}) rules.push_back(std::make_unique<GroupByGroup>(overtake));
    return rules;
  }

  bool interleaves() const override { return true; }

 private:
  /// Before the first backward pass.
  static int forwards_ahead(const Position& p) {
    const int all = p.microbatches * p.chunks;
    return std::min(all, (p.depth - p.index - 1) * 2 + (p.chunks - 1) * p.depth);
  }
};

}  // namespace

const Schedule& interleaved() {
  static const Interleaved schedule;
  return schedule;
}

}  // namespace flotilla::schedule
