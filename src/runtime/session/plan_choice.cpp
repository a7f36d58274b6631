#include "flotilla/session/plan_choice.hpp"

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/plan/bind.hpp"
#include "flotilla/session/job_plan.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "profile_feedback.hpp"
#include "shared_plan.hpp"

namespace flotilla::session {
namespace {

constexpr Rank decider{0};  // one rank decides, so that no difference between machines can make two plans

std::optional<KeptPlan> kept_from(const ChoiceRequest& request, const probe::Discovery& here) {
  if (!request.resume || request.replan || !request.file.empty()) return std::nullopt;
  return kept_plan(*request.resume, request.search, here, request.begins_phase);
}

plan::Plan search_plan(const ChoiceRequest& request, const simulate::ProgramForecaster& forecaster, ChosenPlan& chosen) {
  const Seconds begin = now();
  const auto answer = search::plan(request.search, forecaster);
  FLOTILLA_REQUIRE(answer.best, ErrorKind::no_plan, answer.no_plan_reason);
  chosen.origin = text("searched: ", answer.considered, " plans forecast, ", answer.pruned, " excluded by bounds, ", now() - begin);
  return answer.best->plan;
}

/// Plan, origin and forecast; the profile is there.
void decide(const ChoiceRequest& request, const std::optional<KeptPlan>& kept, int ranks, ChosenPlan& chosen) {
  const simulate::ProgramForecaster forecaster{chosen.profile, request.runtime, request.runtime_constant};
  if (!request.file.empty()) {
    chosen.plan = for_job(files::read_plan(request.file), request.search, chosen.profile, ranks, request.file.string());
    chosen.origin = "--plan " + request.file.string();
  } else if (kept) {
    chosen.plan = plan::bound(kept->plan, chosen.profile, ranks, kept->source);
    chosen.origin = text("kept from step ", kept->step);
  } else {
    chosen.plan = search_plan(request, forecaster, chosen);
  }
  chosen.forecast = forecaster.forecast(chosen.plan, true);
}

/// What earlier starts of the run measured goes before what the probe did.
void correct(const comm::World& world, const ChoiceRequest& request, ChosenPlan& chosen, Seconds deadline) {
  const auto corrected = comm::agree_on(
      world, "reading the corrected profile",
      [&] {
        return world.rank() == decider && !request.corrected.empty() ? corrected_of(chosen.profile, request.corrected) : std::nullopt;
      },
      deadline);
  if (shared_text(world, decider, corrected ? "yes" : "", deadline).empty()) return;
  if (corrected) log::info("the profile is used as this run corrected it: ", request.corrected.string());
  chosen.profile = shared_profile(world, decider, corrected ? *corrected : cluster::Profile{}, "the corrected profile", deadline);
}

}  // namespace

ChosenPlan choose_plan(const comm::World& world, const ChoiceRequest& request, Seconds deadline) {
  ChosenPlan chosen;
  const auto here = probe::discover(world, request.probe);
  const auto kept = comm::agree_on(
      world, "reading the checkpoint's plan", [&] { return kept_from(request, here); }, deadline);
  if (!shared_text(world, decider, kept ? "kept" : "", deadline).empty())
    chosen.profile = shared_profile(world, decider, kept ? kept->profile : cluster::Profile{}, "the checkpoint's profile", deadline);
  else
    chosen.profile = probe::measure_or_reuse(world, request.probe, request.profile, request.reuse).profile;
  correct(world, request, chosen, deadline);
  if (request.transport) chosen.profile = cluster::wanting(std::move(chosen.profile), *request.transport);
  request.measured();
  comm::agree_on(
      world, "planning",
      [&] {
        if (world.rank() == decider) decide(request, kept, world.size(), chosen);
      },
      deadline);
  chosen.plan = shared_plan(world, decider, chosen.plan, "rank 0's plan", deadline).value();
  chosen.origin = shared_text(world, decider, chosen.origin, deadline);
  return chosen;
}

}  // namespace flotilla::session
