#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/session/run_config.hpp"
#include "flotilla/train/learning_rate.hpp"

/// The learning rate over a run's iterations, which a run that is continued keeps. Pure.
namespace flotilla::session {

/// What the checkpoint's word counts for where the job says nothing.
struct RunSchedule {
  train::RateSchedule schedule = train::RateSchedule::cosine;
  std::int64_t steps = 0;     ///< warm-up included, from the start of the run
  std::int64_t cooldown = 0;  ///< the last ones of them; 0 in schedules without
  bool operator==(const RunSchedule&) const = default;
};

/// Each of them as the job says, else as the checkpoint says, so that a run that is continued with more steps keeps its schedule; else the
/// cosine over the job's steps, and a cool-down of a tenth. Throws Error{bad_input} where the checkpoint's words mean nothing.
RunSchedule run_schedule(const RunConfig&, const std::optional<checkpoint::Loaded>& saved);
/// The same in a checkpoint's provenance.
std::vector<std::pair<std::string, std::string>> provenance_of(const RunSchedule&);
/// What to tell a user whose run is continued by another schedule than the job alone would mean, or than the checkpoint's. One line each.
std::vector<std::string> remarks_on(const RunConfig&, const RunSchedule&, const std::optional<checkpoint::Loaded>& saved);

/// Of a schedule over so many iterations, where nobody says: a tenth is enough (Hu et al. 2024).
std::int64_t usual_cooldown(std::int64_t steps);

/// For other ranks, and back.
std::string run_schedule_to_text(const RunSchedule&);
RunSchedule run_schedule_from_text(const std::string&);

train::LearningRate learning_rate_of(const RunConfig&, const RunSchedule&);

}  // namespace flotilla::session
