#include "exploded.hpp"

#include <cmath>
#include <limits>

namespace flotilla::checkpoint {
namespace {

/// Written so that NaN counts, and so that the compiler makes vector code of it.
bool any_beyond(std::span<const float> values, float most) {
  unsigned found = 0;
  for (const float value : values) found |= static_cast<unsigned>(!(std::fabs(value) <= most));
  return found != 0;
}

}  // namespace

bool has_exploded(const LocalState& state) {
  for (const auto& part : state.parts) {
    if (!part.owner) continue;
    for (auto kind : kinds)
      if (any_beyond(part.values(kind), kind == StateKind::parameters ? 1e18f : std::numeric_limits<float>::max())) return true;
  }
  return false;
}

}  // namespace flotilla::checkpoint
