#pragma once
#include <vector>

#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::probe {

/// What a rank says when a turn of a measurement is over.
struct Answer {
  double number = 0;
  bool well = true;
};

/// Everybody's answers, by rank. Collective; whoever waits for those at work leaves them the cores. When some do not answer within `limit`,
/// throws what comm::agree says of them, or Error{communication}.
std::vector<Answer> timed_all_gather(const comm::World&, const comm::PhaseOutcome& mine, double number, Seconds limit, Seconds deadline);

}  // namespace flotilla::probe
