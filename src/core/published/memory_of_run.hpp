#pragma once
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/program/runtime.hpp"
#include "flotilla/published/run.hpp"

namespace flotilla::published {

/// What the run's options and its device's libraries keep in memory beside what its runtime does in any case. `recipes`: NVIDIA's.
void set_memory(program::LayerRuntime&, const Run&, bool recipes, const cluster::CatalogueEntry&);

}  // namespace flotilla::published
