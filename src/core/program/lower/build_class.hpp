#pragma once
#include "class_draft.hpp"

/// Builds one class: first the parts and buffers, then the instructions of the forward, backward and closing phases, then the loops over
/// them.
namespace flotilla::program {

RankClass build_class(const ClassInput& in);

}  // namespace flotilla::program
