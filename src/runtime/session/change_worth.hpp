#pragma once
#include <cstdint>

#include "flotilla/base/units.hpp"

namespace flotilla::session {

/// What another plan offers to a run that is going on, all forecast for devices and links as fast as they are now.
struct ChangeOffer {
  Seconds stays;    ///< an iteration under the plan at work
  Seconds changed;  ///< an iteration under the other one
  Seconds moving;   ///< the training state to where the other one wants it
  std::int64_t steps_left = 0;

  Seconds gain() const { return stays - changed; }
  /// Beside the moving a change takes two iterations: the new plan is made ready beside the steps.
  Seconds cost() const { return 2 * stays + moving; }
};

/// Whether an iteration gains at least a twentieth, and all that are left at least twice what the change costs.
inline bool worth_changing(const ChangeOffer& offer) {
  constexpr double least_gain = 0.05, least_return = 2;
  return offer.gain() >= least_gain * offer.stays && static_cast<double>(offer.steps_left) * offer.gain() >= least_return * offer.cost();
}

}  // namespace flotilla::session
