#include "flotilla/session/job_plan.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/plan/bind.hpp"

namespace flotilla::session {
namespace {

/// A plan says how a model is split; what is dropped while it trains, and what is not trained, is the job's to say.
plan::Plan with_knobs(plan::Plan plan, const model::Config& job) {
  plan.model.dropout = job.dropout;
  plan.model.attention_dropout = job.attention_dropout;
  plan.model.frozen = job.frozen;
  plan.model.lora = job.lora;
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

}  // namespace

plan::Plan for_job(plan::Plan plan, const search::PlanRequest& job, const cluster::Profile& profile, int ranks, const std::string& source) {
  plan = with_knobs(std::move(plan), job.model);
  require_matches_job(plan, job, source);
  return plan::bound(std::move(plan), profile, ranks, source);
}

std::optional<KeptPlan> kept_plan(const checkpoint::Loaded& saved, const search::PlanRequest& job, const probe::Discovery& here,
                                  bool begins_phase) {
  if (saved.manifest.plan.empty() || saved.manifest.profile.empty()) return std::nullopt;
  const auto manifest = (saved.directory / "manifest.json").string();
  auto profile = files::profile_from_json(saved.manifest.profile, manifest + ": /profile");
  if (!cluster::why_stale(profile, here.devices, here.software, here.model_fingerprint).empty()) return std::nullopt;
  const auto source = manifest + ": /plan";
  auto plan = with_knobs(files::plan_from_json(saved.manifest.plan, source), job.model);
  if (begins_phase && (plan.length != job.length || plan.global_batch != job.global_batch)) return std::nullopt;
  auto compared = plan;
  compared.model.family = job.model.family;  // a word for the same arithmetic
  require_same_arithmetic(compared, job, source);
  if (plan.precision != job.precision || !search::keeps(plan, search::settled(job.constraints))) return std::nullopt;
  return KeptPlan{std::move(plan), std::move(profile), saved.manifest.step, source};
}

}  // namespace flotilla::session
