#pragma once
#include "compute/harness.hpp"

namespace flotilla::compute::test {

/// The mean loss of the batch, over all tokens, written as the definition says it, in double: the oracle. Targets of ~token have no loss.
/// Dropout masks come from flotilla::Philox by the documented key and counter.
double reference_loss(const Case&, const Values& parameters, const std::vector<std::int32_t>& tokens);

}  // namespace flotilla::compute::test
