#pragma once
#include <map>
#include <string>

#include "flotilla/page/plots.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::app {

/// A colour for each device type of a plan, in the order of its stages.
std::map<std::string, page::Colour> colours_of_types(const plan::Plan&);

/// Stages from the first to the last, each a row of its replicas by type and zone, as wide as their fraction of the global batch.
page::BoxDrawing drawing_of(const plan::Plan&);

/// The same in characters for a terminal, `width` columns wide; stages that are alike share a row.
std::string plan_boxes(const plan::Plan&, int width);

}  // namespace flotilla::app
