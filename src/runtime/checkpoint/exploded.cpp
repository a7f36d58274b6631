#include "exploded.hpp"

#include <limits>

#include "flotilla/base/magnitudes.hpp"

namespace flotilla::checkpoint {

bool has_exploded(const LocalState& state) {
  for (const auto& part : state.parts) {
    if (!part.owner) continue;
    for (auto kind : kinds)
      if (count_beyond(part.values(kind), kind == StateKind::parameters ? 1e18f : std::numeric_limits<float>::max()) > 0) return true;
  }
  return false;
}

}  // namespace flotilla::checkpoint
