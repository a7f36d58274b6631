#pragma once
#include <string_view>

namespace flotilla::weights {

/// Matrices that a family's files have for one linear layer of ours. PEFT gives each an adapter (model::Lora::parts).
struct AdapterParts {
  int qkv = 1;  ///< 3: queries, keys and values
  int up = 1;   ///< 2: gate and up
};
/// 1 for families whose names are not known.
AdapterParts adapter_parts(std::string_view family);

}  // namespace flotilla::weights
