#include "list_scheduler.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <queue>
#include <utility>

#include "flotilla/base/error.hpp"
#include "index.hpp"

namespace flotilla::schedule {
namespace {

ScheduledDevice device_of(const std::vector<plan::Microbatch>& microbatches, int chunks) {
  ScheduledDevice device;
  device.microbatches = microbatches;
  device.before.resize(microbatches.size());
  device.after.resize(microbatches.size());
  device.chunks.resize(at(chunks));
  for (const auto& m : microbatches) device.sequences += m.count;
  return device;
}

void pair_partners(const Boundary& boundary, std::vector<ScheduledDevice>& from, std::vector<ScheduledDevice>& to) {
  const auto meet = [&](const Crossing& c) {
    from[at(c.replica)].after[at(c.microbatch)].push_back({c.next_replica, c.next_microbatch});
    to[at(c.next_replica)].before[at(c.next_microbatch)].push_back({c.replica, c.microbatch});
  };
  for (const Crossing& crossing : boundary.crossings) meet(crossing);
  for (std::size_t r = 0; boundary.alike && r < from.size(); ++r)
    for (int m = 0; m < from[r].count(); ++m) meet({static_cast<int>(r), m, static_cast<int>(r), m, {}});
}

class ListScheduler {
 public:
  ListScheduler(const PipelineShape& shape, PassRule& rule, const Timing& timing) : rule_{rule}, timing_{timing}, state_{shape} {
    rule_.prepare(state_);
    for (const auto& stage : state_.stages()) link_free_.insert(link_free_.end(), 2, std::vector<Ticks>(stage.size(), 0));
  }

  std::optional<ListSchedule> run() {
    for (;;) {
      for (int p = 0; p < state_.depth(); ++p) begin_stage(p);  // at first, and whom a far stage has freed
      while (!events_.empty()) next_moment();
      if (state_.is_done()) break;
      for (int p = 0; p < state_.depth(); ++p) begin_stage(p);
      if (events_.empty() && !rule_.relax(state_)) return std::nullopt;
    }
    ListSchedule schedule;
    for (const auto& stage : state_.stages())
      for (const ScheduledDevice& device : stage)
        if (!device.passes.empty()) schedule.end = std::max(schedule.end, device.passes.back().end);
    schedule.devices = std::move(state_.stages());
    return schedule;
  }

 private:
  /// A pass ends, or its message arrives.
  struct Event {
    Ticks time = 0;
    int stage = 0, replica = 0;
    Pass pass;
    bool arrival = false;
    auto operator<=>(const Event&) const = default;
  };

  void begin_stage(int p) {
    for (std::size_t r = 0; r < state_.stages()[at(p)].size(); ++r) begin(p, static_cast<int>(r));
  }

  void begin(int p, int r) {
    ScheduledDevice& here = state_.device(p, r);
    if (here.busy) return;
    const auto pass = rule_.next(state_, p, r);
    if (!pass) return;
    ChunkProgress& progress = here.chunks[at(pass->chunk)];
    switch (pass->work) {
      case Work::forward: ++progress.forwards, ++here.in_flight; break;
      case Work::backward: ++progress.backwards; break;
      case Work::weights: ++progress.weights; break;
    }
    const Ticks end = now_ + timing_.pass(here, p, r, *pass);
    here.busy = true;
    here.passes.push_back({*pass, now_, end});
    events_.push({end, p, r, *pass, false});
  }

  void end(const Event& ended) {
    ScheduledDevice& here = state_.device(ended.stage, ended.replica);
    ChunkProgress& progress = here.chunks[at(ended.pass.chunk)];
    here.busy = false;
    if (ended.pass.work == Work::weights) return;
    if (ended.pass.work == Work::forward)
      ++progress.forwards_done;
    else
      ++progress.backwards_done, --here.in_flight;
    if (const Ticks takes = timing_.message(ended.stage, ended.replica, ended.pass); takes > 0)
      send(ended, takes);
    else
      arrive(ended);
  }

  void send(Event message, Ticks takes) {
    Ticks& free = link_free_[at(2 * message.stage + (message.pass.work == Work::backward ? 1 : 0))][at(message.replica)];
    free = std::max(free, now_) + takes;
    message.time = free;
    message.arrival = true;
    events_.push(message);
  }

  void arrive(const Event& message) {
    ChunkProgress& progress = state_.device(message.stage, message.replica).chunks[at(message.pass.chunk)];
    ++(message.pass.work == Work::forward ? progress.forwards_sent : progress.backwards_sent);
  }

  /// All that ends at one moment, then all that may begin: the devices themselves and whom their microbatches go to.
  void next_moment() {
    now_ = events_.top().time;
    touched_.clear();
    while (!events_.empty() && events_.top().time == now_) {
      const Event event = events_.top();
      events_.pop();
      event.arrival ? arrive(event) : end(event);
      touch(event);
    }
    std::ranges::sort(touched_);
    touched_.erase(std::ranges::unique(touched_).begin(), touched_.end());
    for (const auto& [p, r] : touched_)
      if (r == every)
        begin_stage(p);
      else
        begin(p, r);
  }

  /// Whom this may set free. Who waits for room depends on the whole stages beside, and through the buffers on the ones beyond.
  void touch(const Event& event) {
    if (rule_.waits_for_room()) {
      for (int p = std::max(0, event.stage - 1); p <= std::min(state_.depth() - 1, event.stage + 2); ++p) touched_.push_back({p, every});
      return;
    }
    touched_.push_back({event.stage, event.replica});
    if (event.pass.work == Work::weights) return;
    const bool back = event.pass.work == Work::backward;
    const int there = (event.stage + (back ? state_.depth() - 1 : 1)) % state_.depth();
    const ScheduledDevice& here = state_.device(event.stage, event.replica);
    for (const Partner& partner : (back ? here.before : here.after)[at(event.pass.microbatch)])
      touched_.push_back({there, partner.replica});
  }

  static constexpr int every = -1;  // replica

  PassRule& rule_;
  const Timing& timing_;
  PipelineState state_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::vector<Ticks>> link_free_;  // by stage and direction, and replica: when its last message has passed
  std::vector<std::pair<int, int>> touched_;   // (stage, replica) at this moment
  Ticks now_ = 0;
};

/// Every replica needs the same time for its share.
class EqualShares : public Timing {
 public:
  Ticks pass(const ScheduledDevice& device, int, int, const Pass& pass) const override {
    const Ticks forward = device.microbatches[at(pass.microbatch)].count * whole_batch / device.sequences;
    return pass.work == Work::backward && device.deferred < 0 ? 2 * forward : forward;
  }
};

class AsListed : public PassRule {
 public:
  explicit AsListed(const std::vector<std::vector<std::vector<Pass>>>& passes) : passes_{passes} {}
  std::optional<Pass> next(const PipelineState& state, int stage, int replica) const override {
    const ScheduledDevice& here = state.device(stage, replica);
    const auto& all = passes_[at(stage)][at(replica)];
    if (here.passes.size() == all.size()) return std::nullopt;
    const Pass& pass = all[here.passes.size()];
    return state.is_ready(stage, here, pass) ? std::optional{pass} : std::nullopt;
  }

 private:
  const std::vector<std::vector<std::vector<Pass>>>& passes_;
};

}  // namespace

PipelineState::PipelineState(const PipelineShape& shape) : chunks_{shape.chunks}, training_{shape.training} {
  for (const plan::BatchPartition& batch_partition : shape.batch_partitions) {
    auto& stage = stages_.emplace_back();
    for (const auto& microbatches : batch_partition) stage.push_back(device_of(microbatches, chunks_));
  }
  const int pairs = chunks_ > 1 ? depth() : depth() - 1;
  for (int p = 0; p < pairs; ++p) pair_partners(shape.boundaries[at(p)], stages_[at(p)], stages_[at((p + 1) % depth())]);
}

ScheduledDevice& PipelineState::device(int stage, int replica) { return stages_[at((stage + depth()) % depth())][at(replica)]; }
const ScheduledDevice& PipelineState::device(int stage, int replica) const { return stages_[at((stage + depth()) % depth())][at(replica)]; }

bool PipelineState::is_ready(int stage, const ScheduledDevice& here, const Pass& pass) const {
  switch (pass.work) {
    case Work::forward: return has_come_forward(stage, here, pass);
    case Work::backward: return has_come_backward(stage, here, pass);
    case Work::weights: return pass.microbatch < here.chunks[at(pass.chunk)].backwards_done;
  }
  return false;
}

bool PipelineState::has_come_forward(int stage, const ScheduledDevice& here, const Pass& pass) const {
  const int from = stage > 0 ? pass.chunk : pass.chunk - 1;
  return from < 0 || std::ranges::all_of(here.before[at(pass.microbatch)], [&](const Partner& partner) {
           return partner.microbatch < device(stage - 1, partner.replica).chunks[at(from)].forwards_sent;
         });
}

bool PipelineState::has_come_backward(int stage, const ScheduledDevice& here, const Pass& pass) const {
  const int from = stage + 1 < depth() ? pass.chunk : pass.chunk + 1;
  return pass.microbatch < here.chunks[at(pass.chunk)].forwards_done &&
         (from >= chunks_ || std::ranges::all_of(here.after[at(pass.microbatch)], [&](const Partner& partner) {
            return partner.microbatch < device(stage + 1, partner.replica).chunks[at(from)].backwards_sent;
          }));
}

bool PipelineState::is_done() const {
  const auto done = [&](const ScheduledDevice& device) {
    return std::ranges::all_of(device.chunks,
                               [&](const ChunkProgress& c) { return (training_ ? c.backwards_done : c.forwards_done) == device.count(); });
  };
  return std::ranges::all_of(stages_, [&](const auto& stage) { return std::ranges::all_of(stage, done); });
}

std::vector<std::int64_t> PipelineState::grains() const {
  std::vector<std::int64_t> grains;
  for (const auto& stage : stages_) {
    std::int64_t& most = grains.emplace_back(0);
    for (const ScheduledDevice& device : stage)
      if (device.count() > 0) most = std::max(most, whole_batch / device.count());
  }
  return grains;
}

std::optional<ListSchedule> list_schedule(const PipelineShape& shape, PassRule& rule, const Timing& timing) {
  return ListScheduler{shape, rule, timing}.run();
}

ListSchedule list_schedule(const PipelineShape& shape, const std::vector<std::unique_ptr<PassRule>>& rules) {
  std::optional<ListSchedule> best;
  for (const auto& rule : rules) {
    auto found = list_schedule(shape, *rule, EqualShares{});
    if (found && (!best || found->end < best->end)) best = std::move(found);
  }
  FLOTILLA_ASSERT(best.has_value(), "no rule puts the passes of ", shape.batch_partitions.size(), " stages in order");
  return std::move(*best);
}

std::optional<ListSchedule> timed(const PipelineShape& shape, const std::vector<std::vector<std::vector<Pass>>>& passes,
                                  const Timing& timing) {
  AsListed rule{passes};
  return list_schedule(shape, rule, timing);
}

}  // namespace flotilla::schedule
