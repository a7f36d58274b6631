#pragma once
#include "flotilla/search/binding.hpp"
#include "refine.hpp"

namespace flotilla::search::pool {

struct Effort {
  std::int64_t estimates = 0, forecasts = 0;
  bool stopped = false;
};

/// How many times as large a pool must be to hold the model; nothing where no size tried does. Asked where no smaller change mends a plan.
using LargerPool = std::function<std::optional<int>()>;
PlanAnswer answer_of(const DevicePool&, const Refine&, const Effort&, BoundProof floor, PlanEvaluator&, const LargerPool&);

/// Which limits a plan breaks, and by how much: "costs 104 USD an hour where 100 are allowed"; "" where it keeps them.
std::string limits_in_words(const Limits&, const simulate::Forecast&, int devices);

}  // namespace flotilla::search::pool
