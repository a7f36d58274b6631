#pragma once
#include "refine.hpp"
#include "uneven_pipeline.hpp"

namespace flotilla::search::pool {

/// Whether such lines are looked for at all. `routes`: the runtime executes them.
bool searches_uneven_pipelines(const DevicePool&, bool routes);

/// Looks for lines that promise more than the best plan found, forecasts the best of them and changes those while that makes them better.
void try_uneven_pipelines(Estimator&, Network&, const std::vector<int>& microbatches, Refine&, const PlanEvaluator&);

}  // namespace flotilla::search::pool
