#pragma once
#include <string>

#include "flotilla/program/instruction.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla::simulate {

/// Of a layer's operation in a program. Where its products' weights are frozen, of what is left of it. Adapters' products are as fast,
/// FLOP by FLOP, as the operation that they are a part of.
Cost pass_cost(const ProfileCost&, const model::Config&, const std::string& device_type, const program::LayerOperation&,
               const model::LayerShape&);

}  // namespace flotilla::simulate
