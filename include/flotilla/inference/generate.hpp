#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "flotilla/inference/loaded_model.hpp"
#include "flotilla/inference/sampling.hpp"

namespace flotilla::inference {

/// Passes of a text that may grow to `tokens`: several of its tokens at once, and one by one.
PassShape growing_text(int tokens);

struct GenerateOptions {
  SamplingOptions sampling{};
  int tokens = 0;                     ///< at most
  std::vector<std::int32_t> stops{};  ///< tokens that end the text, themselves not part of it
};

/// Goes on with `prompt`, at least one token; `take` is called with every new token on every rank and may end the text by false. The model
/// is loaded with growing_text() of prompt and new tokens together. Returns the new tokens, on every rank. Collective.
std::vector<std::int32_t> generate(LoadedModel&, std::span<const std::int32_t> prompt, const GenerateOptions&,
                                   const std::function<bool(std::int32_t token)>& take = {});

}  // namespace flotilla::inference
