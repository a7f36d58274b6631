#pragma once
#include <string>

#include "app/common/table.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::app {

/// A plan for people: the job in a few lines, then a row per stage and replica with its devices and sequences.
std::string plan_text(const plan::Plan&, const Style& = {});

}  // namespace flotilla::app
