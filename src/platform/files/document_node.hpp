#pragma once
#include "flotilla/plan/plan.hpp"
#include "flotilla/simulate/report.hpp"
#include "node.hpp"

/// Whole documents as values: what files of their own hold and others hold as a part.
namespace flotilla::files::detail {

Node plan_node(const plan::Plan&);
Node forecast_node(const simulate::Report&);

}  // namespace flotilla::files::detail
