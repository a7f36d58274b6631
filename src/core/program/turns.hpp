#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "flotilla/plan/dealing.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::program {

/// `repeat` times: the forward pass of microbatch forward + i, then the backward pass of backward + i, then the weights' half of the
/// backward pass of weights + i; -1: none. With weights alone, layer after layer through all `repeat` microbatches.
struct Turns {
  int repeat = 0, forward = -1, backward = -1, weights = -1;
  auto operator<=>(const Turns&) const = default;
};

/// How a stage makes its backward passes: whole, or in two halves. Of the weights' halves that it would defer for the sake of time it has
/// room for `some` of `all`; with 0 they end their own backward pass.
struct Halves {
  bool split = false;
  std::int64_t some = 0, all = 1;
  int deferred(std::int64_t wanted) const { return static_cast<int>(wanted * some / all); }
};

/// The order in which a replica makes its passes, and how many microbatches it holds between their two.
struct PassOrder {
  std::vector<Turns> turns;
  int in_flight = 1;
  /// Microbatches whose weights' halves wait behind the inputs' half of one: with 0, weights' halves end their own backward pass. -1:
  /// backward passes are not split.
  int deferred = -1;
  bool splits() const { return deferred >= 0; }
  auto operator<=>(const PassOrder&) const = default;
};

/// Where all stages are dealt alike:
///   gpipe  all forwards, then all backwards (Huang et al. 2019)
///   1f1b   stages - 1 - stage forwards ahead, then one forward, one backward, then the backwards left (PipeDream-flush, Narayanan et
///          al. 2021): at most stages - stage microbatches in flight
///   zero-bubble  1F1B's, to be split (zero_bubble.hpp)
PassOrder order_of_column(plan::ScheduleKind, int stages, int stage, int microbatches);

/// Forward passes alone.
PassOrder forward_order(int microbatches);

/// 1F1B where stages are dealt unlike, by (stage, replica): the pipeline is run through once by a clock on which every replica needs the
/// same time for its share and backward twice as long as forward. Whoever is free goes back where it can, else forward while fewer than
/// its depth are in flight: as many as cover the way of a microbatch down the pipeline and back, what later stages gather included. What
/// waits for room in a receiver's buffers waits here too, so the order is its own proof that the program ends. Pure integers.
/// A stage that splits its backward passes (`halves` by stage; empty: none does) sends a gradient on when half the time is over, then makes
/// the other half, where it defers, of the microbatch PassOrder::deferred before: as many as its depth is short of the first stage's, if
/// there is room. The orders are still to be split (zero_bubble.hpp).
std::vector<std::vector<PassOrder>> orders_by_clock(const std::vector<plan::Deal>& deals, const std::vector<Halves>& = {});

}  // namespace flotilla::program
