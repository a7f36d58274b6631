#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/journal/metrics.hpp"

/// What a step looks like on the console. Pure functions: no colour, no cursor movement, no clock.
namespace flotilla::journal {

/// "step  120/1000  loss  2.3456   345 ms  12.3k tok/s  mfu  41 %  eta 0:05:23": within 80 columns up to a million steps. Columns keep
/// their width from step to step.
std::string step_line(const StepRecord&, std::int64_t total_steps);
/// "step  120/1000  evaluation loss 2.3456 (64 sequences, 1.2 s)"
std::string evaluation_line(const EvaluationRecord&, std::int64_t total_steps);
/// "step  120/1000  checkpoint saved (1.5 GiB, 2.1 s)"
std::string checkpoint_line(const CheckpointRecord&, std::int64_t total_steps);

/// Which figures of the profile were wrong, a line for each device type and each kind of link: "messages between hosts take 2.1 times as
/// long as in the profile (quartiles 2.0 to 2.3, error bar 8.0 %)".
std::vector<std::string> wrong_figures_in_words(const CorrectionRecord&);
/// "after step 20: 71.3 ms forecast, 88.0 ms by the corrected profile, 90.1 ms measured; profile-corrected.json"
std::string correction_in_words(const CorrectionRecord&);
/// Both in one sentence for the terminal, in two digits: "operations of cpu:x take 1.3 to 1.4 times as long as in the profile, messages
/// between hosts 2.1 times; the next start plans with profile-corrected.json".
std::string correction_in_short(const CorrectionRecord&);

/// Whether a step gets a line: every step on a terminal; else every `every` steps, and always the incarnation's first and the run's last.
bool gets_line(std::int64_t step, std::int64_t first_step, std::int64_t total_steps, std::int64_t every, bool terminal);

/// Remaining steps times the median of recent step times: a slow first step or a checkpoint does not disturb it. Zero without samples.
Seconds remaining_time(std::span<const double> recent_step_seconds, std::int64_t remaining_steps);

/// "0:05:23", "12:00:00", "3d 04h"; "-" for what is not finite or negative.
std::string clock_text(Seconds);
/// Three digits and a prefix: "950", "12.3k", "1.25M".
std::string short_number(double);

}  // namespace flotilla::journal
