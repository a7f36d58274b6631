#include "app/plan_change.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/topology/resident.hpp"
#include "flotilla/train/move_state.hpp"

namespace flotilla::app {
namespace {

/// The crew's first rank holds its steps against the forecast.
ChosenPlan chosen_next(const Workplace& place, const PlanAtWork& work, const NextPlan& next, const Lowered& lowered) {
  return comm::agree_on(
      place.world, "forecasting the new plan",
      [&] {
        ChosenPlan chosen;
        chosen.plan = files::plan_from_json(next.plan, next.reason);
        chosen.profile = work.chosen.profile;
        chosen.origin = next.reason;
        if (place.world.rank() == lowered.crew.front())
          chosen.forecast = simulate::ProgramForecaster{chosen.profile, place.runtime, place.runtime_constant}.forecast(chosen.plan, true);
        return chosen;
      },
      place.job.comm.deadline);
}

/// Memory that a rank lacks to hold both plans; the same answer on every rank, empty where all have it.
std::string why_too_large(const Workplace& place, const PlanAtWork& work, const Lowered& lowered) {
  const auto& profile = work.chosen.profile;
  const auto here = place.world.rank();
  const auto* type = cluster::find_type(profile, profile.devices.at(here.index()).type);
  std::int64_t limit = type == nullptr ? 0 : type->memory.count;
  if (const auto given = place.job.device.memory.count; given > 0) limit = limit > 0 ? std::min(limit, given) : given;
  struct Need {
    std::int64_t peak, limit;
  };
  const Need mine{(program::migration_peak(work.arena, lowered.arena(here)) + place.runtime_constant).count, limit};
  const auto all = mpi::all_gather(place.world.control(), mine, place.job.comm.deadline);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].limit > 0 && all[r].peak > all[r].limit)
      return text(place.world.name(Rank{static_cast<int>(r)}), " needs ", Bytes{all[r].peak}, " to hold both plans and may use ",
                  Bytes{all[r].limit});
  return {};
}

Bytes move(const Workplace& place, const PlanAtWork& from, PlanAtWork& to) {
  const auto deadline = place.job.comm.deadline;
  const auto migration = program::migrate(from.chosen.plan, to.chosen.plan, place.runtime.placement);
  const auto state = [](const PlanAtWork& work) { return work.trainer ? work.trainer->state() : checkpoint::LocalState{}; };
  comm::agree_on(
      place.world, "moving the training state", [&] { train::move_state(place.world, migration, state(from), state(to), deadline); },
      deadline);
  const auto updates = std::stoll(mpi::broadcast_string(
      place.world.control(), from.trainer ? std::to_string(from.trainer->optimizer_steps()) : "", from.crew_ranks.front().value, deadline));
  if (to.trainer) to.trainer->adopt(updates);
  return migration.moved();
}

/// The way out where the plans do not fit side by side.
Ending save_instead(TrainingLoop* loop, const NextPlan& next, const std::string& why) {
  if (loop == nullptr) return {ExitCode::requeue, "", 0, {}};
  return loop->hand_over(next.plan, text(next.reason, ": ", why));
}

}  // namespace

PlanChange change_plan(const Workplace& place, PlanAtWork& work, TrainingLoop* loop, const NextPlan& next, std::int64_t step) {
  PlanChange change;
  change.step = step;
  change.reason = next.reason;
  change.since = now();
  PlanAtWork fresh;
  try {
    auto lowered = lower(place, files::plan_from_json(next.plan, next.reason));
    const auto chosen = chosen_next(place, work, next, lowered);
    if (const auto why = why_too_large(place, work, lowered); !why.empty()) {
      if (place.job.plan.file.empty())
        change.ending = save_instead(loop, next, why);
      else
        change.refused = why + "; a restart would take --plan again, so give it the new plan";
      return change;
    }
    fresh = take_up(place, chosen, std::move(lowered));
  } catch (const comm::AgreedError& error) {
    change.refused = error.what();
    return change;
  }
  change.moved = move(place, work, fresh);
  work.trainer.reset();  // before the crew that it talks over
  work = std::move(fresh);
  topology::forget_peak_resident();  // both plans at once were the move's, not the new plan's
  return change;
}

}  // namespace flotilla::app
