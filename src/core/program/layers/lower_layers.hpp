#pragma once
#include "flotilla/program/program.hpp"

namespace flotilla::program {

/// A plan for a described runtime (Runtime::layers): whole layers, stage after stage in replica columns; replicas of one stage may differ
/// in device type and tensor degree. Throws Error{unavailable} for what such a runtime cannot do.
Program lower_layers(const plan::Plan&, const Runtime&);

}  // namespace flotilla::program
