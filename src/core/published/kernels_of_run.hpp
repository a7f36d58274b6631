#pragma once
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/program/runtime.hpp"
#include "flotilla/published/run.hpp"

namespace flotilla::published {

/// A runtime's kernels in half precision as the run has them: whether attention is one kernel, what a compiler or a missing option does to
/// element-wise steps, and how fast the run's device and its host execute them. `without_dropout`: of attention's scores.
void set_kernels(program::LayerKernels&, const Run&, bool without_dropout, const cluster::CatalogueEntry& device);

}  // namespace flotilla::published
