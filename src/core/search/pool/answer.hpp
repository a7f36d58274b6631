#pragma once
#include "refine.hpp"

namespace flotilla::search::pool {

struct Effort {
  std::int64_t estimates = 0, forecasts = 0;
  bool stopped = false;
};

PoolAnswer answer_of(const Stock&, const Refine&, const Effort&, double floor, Bench&);

plan::Plan unbound(plan::Plan);
/// What local search may spend: forecasts of many devices take long.
std::size_t shortlist_length(int devices);
int most_improvements(int devices);

}  // namespace flotilla::search::pool
