#pragma once
#include "flotilla/schedule/schedule.hpp"

namespace flotilla::schedule {

/// 1F1B (PipeDream-flush: Narayanan et al. 2021, https://arxiv.org/abs/2006.09503): depth - 1 - index forward passes ahead, then one
/// forward and one backward pass by turns, then the backward passes left. At most depth - index microbatches are in flight.
///
/// Where stages are dealt unlike, whoever is free goes back where it can, else forward while fewer microbatches are in flight than cover
/// the way down the pipeline and back (under_way). What waits for room in a receiver's buffers waits here too, so the list schedule is its
/// own proof that the program ends. A stage that splits its backward passes sends a gradient on after the input half, and makes as many
/// weight-gradient halves later as its limit is short of the first stage's, if there is room.
class OneForwardOneBackward : public Schedule {
 public:
  PassOrder order(const Position&) const override;
  InFlight in_flight(const Position&) const override;
  std::vector<std::unique_ptr<PassRule>> rules(const std::vector<Fraction>& deferrable) const override;
};

}  // namespace flotilla::schedule
