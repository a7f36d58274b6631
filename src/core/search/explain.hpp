#pragma once
#include <span>

#include "evaluated.hpp"

namespace flotilla::search {

/// "3.1 %".
std::string percent(double ratio);

/// Why `other` lost against `best`, in a few words.
std::string why_lost(const Evaluated& other, const Evaluated& best, Goal);

/// Whether nobody can tell which is better: work that both plans do alike on the same types of devices errs alike, so the error of their
/// difference is that of what they do differently.
bool equal_within_error(const Evaluated&, const Evaluated&);

/// As an answer tells it: with why it lost.
RankedPlan alternative(const Evaluated& other, const Evaluated& best, Goal);

/// The activity that takes most more of a device's time in `other`.
simulate::Activity grown_most(const Evaluated& other, const Evaluated& best);

/// What keeps the best plan from being better, in a few words: limits that it is at, the types that it takes all devices of, the batch.
std::string binding_of(const PlanRequest&, const cluster::Profile& library, const RankedPlan& best);

/// "1f1b, gpipe".
std::string in_words(std::span<const plan::ScheduleKind>);

}  // namespace flotilla::search
