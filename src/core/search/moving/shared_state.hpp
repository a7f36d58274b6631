#pragma once
#include "flotilla/base/units.hpp"
#include "flotilla/plan/plan.hpp"

/// Private: training_state() and moved_bytes() where one of the plans shares its optimizer out, so that no two replicas hold the same.
namespace flotilla::search {

Bytes state_with_shares(const plan::Plan&);
Bytes moved_with_shares(const plan::Plan& previous, const plan::Plan& next);

}  // namespace flotilla::search
