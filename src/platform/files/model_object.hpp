#pragma once
#include "flotilla/model/config.hpp"
#include "node.hpp"

namespace flotilla::files {

/// The "model" object of a plan.
detail::Node model_object(const model::Config&);

}  // namespace flotilla::files
