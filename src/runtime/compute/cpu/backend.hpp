#pragma once
#include <memory>

#include "flotilla/compute/backend.hpp"

namespace flotilla::compute {

std::unique_ptr<Backend> make_cpu_backend(const Setup&);
/// Asks oneDNN; library_scratch() of a CPU.
Bytes cpu_scratch(const Setup&, int sequences);

}  // namespace flotilla::compute
