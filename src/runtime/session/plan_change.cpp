#include "plan_change.hpp"

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/topology/resident.hpp"
#include "flotilla/train/move_state.hpp"

namespace flotilla::session {
namespace {

Bytes move(const RunContext& place, const ActivePlan& from, ReadyPlan& to, const SegmentResult& segment_result) {
  const auto deadline = place.config.comm.deadline;
  const auto state = [](const ActivePlan& work) { return work.trainer ? work.trainer->state() : checkpoint::LocalState{}; };
  comm::agree_on(
      place.world, "moving the training state",
      [&] { train::move_state(place.world, to.migration, state(from), state(to.work), deadline); }, deadline);
  if (to.work.trainer) to.work.trainer->adopt(segment_result.updates, segment_result.loss_scale);
  return to.migration.moved();
}

/// The way out where the plans do not fit side by side.
SegmentResult save_instead(TrainingLoop* loop, const ReadyPlan& ready) {
  if (loop == nullptr) return {ExitCode::requeue, "", 0, false, {}, 0};
  return loop->hand_over(ready.next.plan, text(ready.next.reason, ": ", ready.too_large));
}

}  // namespace

PlanChange change_plan(const RunContext& place, ActivePlan& work, TrainingLoop* loop, ReadyPlan ready,
                       const SegmentResult& segment_result) {
  PlanChange change;
  change.step = segment_result.step;
  change.reason = ready.next.reason;
  change.since = segment_result.since;
  if (!ready.too_large.empty()) {
    change.segment_result = save_instead(loop, ready);
    return change;
  }
  const Seconds met = now();
  change.moved = move(place, work, ready, segment_result);
  const Seconds moved = now();
  work.trainer.reset();  // before the active ranks that it talks over
  work = std::move(ready.work);
  log::debug("plan change: all ranks there after ", met - change.since, ", state moved in ", moved - met, ", old plan let go in ",
             now() - moved);
  topology::forget_peak_resident();  // both plans at once were the move's, not the new plan's
  return change;
}

}  // namespace flotilla::session
