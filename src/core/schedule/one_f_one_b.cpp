#include "one_f_one_b.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/schedule/pipeline_schedule.hpp"
#include "index.hpp"
#include "list_scheduler.hpp"
#include "schedules.hpp"

namespace flotilla::schedule {
namespace {

/// A device holds one stage: chunk 0 is all there is.
const ChunkProgress& progress_of(const ScheduledDevice& device) { return device.chunks.front(); }

class BackwardFirst : public PassRule {
 public:
  /// `deferrable` by stage; nothing: backward passes are whole.
  explicit BackwardFirst(std::vector<std::optional<Fraction>> deferrable) : deferrable_{std::move(deferrable)} {}

  void prepare(PipelineState& state) override {
    const auto way = under_way(state.grains());
    for (std::size_t s = 0; s < way.size(); ++s)
      for (ScheduledDevice& device : state.stages()[s]) {
        device.limit = in_flight_of(way[s], device.count());
        const std::int64_t short_of = (way.front() - way[s]) * device.count();
        if (deferrable_[s]) device.deferred = deferrable_[s]->of((short_of + whole_batch / 2) / whole_batch);
      }
  }

  std::optional<Pass> next(const PipelineState& state, int stage, int replica) const override {
    const ScheduledDevice& here = state.device(stage, replica);
    const ChunkProgress& progress = progress_of(here);
    if (here.deferred >= 0 && progress.weights < progress.backwards_done - here.deferred) return Pass{Work::weights, 0, progress.weights};
    if (may_go_back(state, stage, here)) return Pass{Work::backward, 0, progress.backwards};
    if (may_go_forward(state, stage, here)) return Pass{Work::forward, 0, progress.forwards};
    return std::nullopt;
  }

  /// Some limit is too small for what a later stage gathers. The device whose next sequences come first gets one more.
  bool relax(PipelineState& state) override {
    ScheduledDevice* chosen = nullptr;
    const auto next_sequence = [](const ScheduledDevice& d) { return d.microbatches[at(progress_of(d).forwards)].first; };
    for (auto& stage : state.stages())
      for (ScheduledDevice& device : stage) {
        if (progress_of(device).forwards >= device.count() || device.in_flight < device.limit) continue;
        if (chosen == nullptr || next_sequence(device) < next_sequence(*chosen)) chosen = &device;
      }
    FLOTILLA_ASSERT(chosen != nullptr, "the passes of ", state.depth(), " stages cannot be put in order");
    ++chosen->limit;
    return true;
  }

  bool waits_for_room() const override { return true; }

 private:
  static bool has_room_forward(const PipelineState& state, int stage, const Partner& to) {
    const ScheduledDevice& receiver = state.device(stage, to.replica);
    return to.microbatch < progress_of(receiver).backwards_done + std::max(receiver.limit, sent_copies);
  }
  /// The buffer that a gradient comes into is the one that the stage's own gradient leaves from.
  static bool has_room_backward(const PipelineState& state, int stage, const Partner& to) {
    const ScheduledDevice& receiver = state.device(stage, to.replica);
    if (to.microbatch >= progress_of(receiver).backwards_done + sent_copies) return false;
    return to.microbatch < sent_copies || has_left_backward(state, stage, receiver, to.microbatch - sent_copies);
  }
  static bool has_left_backward(const PipelineState& state, int stage, const ScheduledDevice& sender, int microbatch) {
    return std::ranges::all_of(sender.before[at(microbatch)], [&](const Partner& p) { return has_room_backward(state, stage - 1, p); });
  }

  static bool may_go_forward(const PipelineState& state, int stage, const ScheduledDevice& here) {
    const int m = progress_of(here).forwards;
    if (m >= here.count() || here.in_flight >= here.limit || !state.is_ready(stage, here, {Work::forward, 0, m})) return false;
    if (m < sent_copies) return true;
    return std::ranges::all_of(here.after[at(m - sent_copies)], [&](const Partner& p) { return has_room_forward(state, stage + 1, p); });
  }

  static bool may_go_back(const PipelineState& state, int stage, const ScheduledDevice& here) {
    const int m = progress_of(here).backwards;
    if (m >= here.count() || !state.is_ready(stage, here, {Work::backward, 0, m})) return false;
    return m < sent_copies || has_left_backward(state, stage, here, m - sent_copies);
  }

  std::vector<std::optional<Fraction>> deferrable_;
};

}  // namespace

PassOrder OneForwardOneBackward::order(const Position& p) const {
  const int ahead = std::min(p.microbatches, p.depth - 1 - p.index), steady = p.microbatches - ahead;
  PassOrder order;
  if (ahead > 0) order.loops.push_back({ahead, 0, -1});
  if (steady > 0) order.loops.push_back({steady, ahead, 0});
  if (ahead > 0) order.loops.push_back({ahead, -1, steady});
  order.in_flight = in_flight(p).most;
  return order;
}

InFlight OneForwardOneBackward::in_flight(const Position& p) const {
  const int all = std::max(1, std::min(p.microbatches, p.depth - p.index));
  return {all, all};
}

std::vector<std::unique_ptr<PassRule>> OneForwardOneBackward::rules(const std::vector<Fraction>& deferrable) const {
  std::vector<std::optional<Fraction>> splitting(deferrable.size());
  for (std::size_t s = 0; s < deferrable.size(); ++s)
    if (splits(static_cast<int>(s))) splitting[s] = deferrable[s];
  std::vector<std::unique_ptr<PassRule>> rules;
  rules.push_back(std::make_unique<BackwardFirst>(std::move(splitting)));
  return rules;
}

const Schedule& one_f_one_b() {
  static const OneForwardOneBackward schedule;
  return schedule;
}

}  // namespace flotilla::schedule
