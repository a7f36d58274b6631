#pragma once
#include "pool_instances.hpp"

namespace flotilla::tools {

/// A random pool of one to three types of the hardware catalogue with 4 to 128 devices in one to three zones, a language model that it may
/// hold, and a batch. The same for a seed on every machine.
fixture::Instance catalogue_instance(int seed);

/// "gpt2-xl, batch 256: H100=16/8, V100-16=32/4".
std::string in_words(const search::PlanRequest&);

}  // namespace flotilla::tools
