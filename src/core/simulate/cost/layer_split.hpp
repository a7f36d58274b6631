#pragma once
#include <optional>

#include "flotilla/model/config.hpp"
#include "layer_cost.hpp"
#include "network/route.hpp"

namespace flotilla::simulate {

/// An operation's part of a whole layer that somebody measured (cluster::LayerTime): its roofline, as an eager framework would run it,
/// times measured / estimated time of the layer's pass. Collectives of the tensor-parallel group are in both times, so they cancel. The
/// layer was measured at the model's positions; for other lengths the factor stays. nullopt when the model's layer was not measured on the
/// type.
std::optional<Cost> split_of_layer(const cluster::Profile&, const FitsByTypes&, const LayerCosts&, const model::Config&,
                                   const std::string& device_type, model::Operation, const model::LayerShape&);

}  // namespace flotilla::simulate
