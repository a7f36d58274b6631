#pragma once
#include <filesystem>
#include <string>

#include "flotilla/base/precision.hpp"
#include "flotilla/checkpoint/manifest.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::weights {

/// README.md of an exported model: from which checkpoint, how trained, on what. No path of this machine is in it.
std::string model_card(const checkpoint::Manifest&, const plan::Plan&, Precision);

}  // namespace flotilla::weights
