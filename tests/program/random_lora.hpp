#pragma once
#include <random>

#include "flotilla/model/config.hpp"
#include "support/random.hpp"

namespace flotilla::tests {

/// Adapters of some rank on some layers, of queries, keys and values, and gate and up, together or apart.
inline model::Lora any_lora(const model::Config& model, std::mt19937& random) {
  model::Lora lora{between(random, 1, 6), 0.5 * between(random, 1, 20)};
  while (lora.targets.empty())
    for (const auto linear : model::linears)
      if (lora.targets.size() < model::linears.size() && between(random, 0, 1) == 1 && !lora.adapts(linear)) lora.targets.push_back(linear);
  lora.qkv_parts = between(random, 0, 1) == 1 ? 3 : 1;
  lora.up_parts = model.gated() && between(random, 0, 1) == 1 ? 2 : 1;
  return lora;
}

}  // namespace flotilla::tests
