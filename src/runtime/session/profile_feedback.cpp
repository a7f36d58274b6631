#include "profile_feedback.hpp"

#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/corrections_file.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/session/plan_choice.hpp"

namespace flotilla::session {
namespace {

using cluster::Correction;
using FigureKind = Correction::Figure;

journal::WrongFigure figure_of(const Correction& c) {
  journal::WrongFigure f;
  const bool operation = c.figure == FigureKind::operation;
  f.subject = operation ? c.device_type : cluster::name_of(c);
  f.figure = operation ? c.operation : c.figure == FigureKind::messages ? "messages" : "sums";
  f.tensor_parallel = c.tensor_parallel;
  f.sequences = c.sequences;
  f.profile_seconds = c.was.value;
  f.measured_seconds = c.now.value;
  f.lower_quartile = c.lower;
  f.upper_quartile = c.upper;
  f.relative_error = c.error_bar;
  f.inferred = c.inferred;
  return f;
}

/// Measured as one, whoever's devices are listed.
bool same_measurement(const cluster::Profile& a, const cluster::Profile& b) {
  return a.measured_at == b.measured_at && a.software == b.software && a.model_fingerprint == b.model_fingerprint;
}

std::vector<Correction> earlier_corrections(const std::filesystem::path& file, const cluster::Profile& profile) {
  if (!files::facts_of(file)) return {};
  try {
    const auto document = files::Json::read(file);
    if (same_measurement(files::profile_from_json(document), profile)) return files::corrections_of(document);
  } catch (const Error& error) {
    log::warning(error.what(), "; it is written anew");
  }
  return {};
}

}  // namespace

std::filesystem::path corrected_profile_file(const std::filesystem::path& run, int length, int first_length) {
  return run / (length == first_length ? std::string{"profile-corrected.json"} : text("profile-", length, "-corrected.json"));
}

ProfileFeedback feedback_of(const monitor::Proof& proof, const cluster::Profile& profile, Seconds forecast,
                            const std::function<Seconds(const cluster::Profile&)>& by, const std::string& run, std::int64_t step) {
  ProfileFeedback feedback;
  feedback.corrections = proof.wrong;
  for (auto& c : feedback.corrections) {
    c.run = run;
    c.step = step;
    feedback.record.figures.push_back(figure_of(c));
  }
  feedback.profile = cluster::corrected(profile, feedback.corrections);
  auto& record = feedback.record;
  record.step = step;
  record.iterations = proof.iterations;
  record.forecast_seconds = forecast.value;
  record.corrected_seconds = by(feedback.profile).value;
  record.measured_seconds = proof.measured.value;
  feedback.nearer =
      std::abs(record.corrected_seconds - record.measured_seconds) < std::abs(record.forecast_seconds - record.measured_seconds);
  return feedback;
}

void write_corrected(const std::filesystem::path& file, const ProfileFeedback& feedback) {
  files::write_profile(file, feedback.profile, cluster::merged(earlier_corrections(file, feedback.profile), feedback.corrections));
}

std::optional<cluster::Profile> corrected_of(const cluster::Profile& profile, const std::filesystem::path& file) {
  if (!files::facts_of(file)) return std::nullopt;
  try {
    auto corrected = files::read_profile(file);
    if (!same_measurement(corrected, profile)) return std::nullopt;
    return corrected.devices == profile.devices ? std::move(corrected) : cluster::part_of(corrected, profile.devices);
  } catch (const Error& error) {
    log::warning(error.what(), "; planning without it");
    return std::nullopt;
  }
}

}  // namespace flotilla::session
