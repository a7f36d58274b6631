#pragma once
#include "drop_site.hpp"
#include "flotilla/compute/backend.hpp"
#include "kernels.hpp"

namespace flotilla::compute::cpu {

/// The dropout of one site in one step; off when not training.
Dropout dropout(const Setup&, const Task&, DropSite);

}  // namespace flotilla::compute::cpu
