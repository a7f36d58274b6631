#pragma once
#include "best_first.hpp"

namespace flotilla::search::even {

/// The plan that came nearest to fitting: of those forecast, and of the configurations that the memory bound excluded. Empty when the
/// request allows no configuration at all or the forecaster can do none of them.
std::optional<Miss> nearest_miss(const Problem&, const BestFirst&);

}  // namespace flotilla::search::even
