#include "app/train/plan_choice.hpp"

#include "app/common/binding.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/simulate/forecaster.hpp"

namespace flotilla::app {
namespace {

/// Rank 0's text on every rank.
std::string from_rank_0(const comm::World& world, const std::string& text, Seconds deadline) {
  return mpi::broadcast_string(world.control(), text, 0, deadline);
}

plan::Plan search_plan(const ChoiceRequest& request, const simulate::ProgramForecaster& forecaster, session::ChosenPlan& chosen) {
  const Seconds begin = now();
  const auto answer = search::plan(request.search, forecaster);
  FLOTILLA_REQUIRE(answer.best, ErrorKind::no_plan, answer.no_plan_reason);
  chosen.origin = text("searched: ", answer.considered, " plans forecast, ", answer.pruned, " excluded by bounds, ", now() - begin);
  return answer.best->plan;
}

/// A plan says how a model is split; what is dropped while it trains is the job's to say.
plan::Plan with_dropout(plan::Plan plan, const model::Config& job) {
  plan.model.dropout = job.dropout;
  plan.model.attention_dropout = job.attention_dropout;
  return plan;
}

/// Libraries of published measurements hold models under the names of families whose arithmetic those measurements did not have: GPT-2's
/// ran in the sizes of others. They are there to forecast.
void require_trainable(const model::Config& model, const std::string& source) {
  const bool namesake = (model.family == "llama" && !model.rotates()) || (model.family == "gpt_neo" && model.scaled_scores);
  FLOTILLA_REQUIRE(
      !namesake, ErrorKind::unavailable, source, ": model ", model.name, " has the size of a ", model.family,
      " and GPT-2's arithmetic, as a published measurement ran it; Flotilla forecasts it and does not train it: name a built-in "
      "model or a config.json");
}

/// The plan computes what the job says, on the batches that it says: everything but how it is split, and the precision.
void require_same_arithmetic(const plan::Plan& plan, const search::PlanRequest& job, const std::string& source) {
  const auto differ = [&](const char* what, const auto& theirs, const auto& ours) {
    throw Error{ErrorKind::bad_input, text(source, ": ", what, " is ", theirs, ", the job says ", ours, "; make them the same")};
  };
  auto theirs = plan.model, ours = job.model;
  theirs.name = ours.name;
  if (theirs != ours) differ("model", plan.model.name, job.model.name + " (or its shape differs)");
  if (plan.length != job.length) differ("length", plan.length, job.length);
  if (plan.global_batch != job.global_batch) differ("global_batch", plan.global_batch, job.global_batch);
}

void require_matches_job(const plan::Plan& plan, const search::PlanRequest& job, const std::string& source) {
  require_trainable(plan.model, source);
  require_same_arithmetic(plan, job, source);
  if (plan.precision != job.precision)
    throw Error{ErrorKind::bad_input, text(source, ": precision is ", to_string(plan.precision), ", the job says ",
                                           to_string(job.precision), "; make them the same")};
}

/// The checkpoint's plan and profile as JSON where they may be kept; both empty where not.
struct Kept {
  std::string plan, profile;
  std::int64_t step = 0;
};
Kept kept_from(const ChoiceRequest& request, const probe::Discovery& here) {
  if (!request.resume || request.replan || !request.file.empty()) return {};
  const auto& manifest = request.resume->manifest;
  if (manifest.plan.empty() || manifest.profile.empty()) return {};
  const auto profile = files::profile_from_json(manifest.profile, request.resume->directory.string());
  if (!cluster::why_stale(profile, here.devices, here.software, here.model_fingerprint).empty()) return {};
  const auto source = (request.resume->directory / "manifest.json").string() + ": /plan";
  const auto plan = files::plan_from_json(manifest.plan, source);
  auto compared = with_dropout(plan, request.search.model);
  compared.model.family = request.search.model.family;  // a word for the same arithmetic
  require_same_arithmetic(compared, request.search, source);
  if (plan.precision != request.search.precision || !keeps(plan, settled(request.search.constraints))) return {};
  return {manifest.plan, manifest.profile, manifest.step};
}

}  // namespace

plan::Plan for_job(plan::Plan plan, const search::PlanRequest& job, const cluster::Profile& profile, int ranks, const std::string& source) {
  plan = with_dropout(std::move(plan), job.model);
  require_matches_job(plan, job, source);
  return bound(std::move(plan), profile, ranks, source);
}

session::ChosenPlan choose_plan(const comm::World& world, const ChoiceRequest& request, Seconds deadline) {
  session::ChosenPlan chosen;
  const auto here = probe::discover(world, request.probe);
  const auto kept = comm::agree_on(
      world, "reading the checkpoint's plan", [&] { return kept_from(request, here); }, deadline);
  const std::string plan_text = from_rank_0(world, kept.plan, deadline);
  if (!plan_text.empty()) {
    chosen.profile = files::profile_from_json(from_rank_0(world, kept.profile, deadline), "the checkpoint's profile");
  } else {
    auto probed = probe::measure_or_reuse(world, request.probe, request.profile, request.reuse);
    chosen.profile = std::move(probed.profile);
  }
  // Rank 0 decides, so that no difference between machines can make two plans.
  const std::string decided = comm::agree_on(
      world, "planning",
      [&]() -> std::string {
        if (world.rank() != Rank{0}) return {};
        const simulate::ProgramForecaster forecaster{chosen.profile, request.runtime, request.runtime_constant};
        if (!request.file.empty()) {
          chosen.plan = for_job(files::read_plan(request.file), request.search, chosen.profile, world.size(), request.file.string());
          chosen.origin = "--plan " + request.file.string();
        } else if (!plan_text.empty()) {
          auto plan = with_dropout(files::plan_from_json(plan_text, "the checkpoint's plan"), request.search.model);
          chosen.plan = bound(std::move(plan), chosen.profile, world.size(), "the checkpoint's plan");
          chosen.origin = text("kept from step ", kept.step);
        } else {
          chosen.plan = search_plan(request, forecaster, chosen);
        }
        chosen.forecast = forecaster.forecast(chosen.plan, true);
        return files::plan_to_json(chosen.plan);
      },
      deadline);
  chosen.plan = files::plan_from_json(from_rank_0(world, decided, deadline), "rank 0's plan");
  chosen.origin = from_rank_0(world, chosen.origin, deadline);
  return chosen;
}

}  // namespace flotilla::app
