#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "flotilla/inference/loaded_model.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::inference {

/// Stretches of text to be scored, each in a sequence of its own. Local, pure, the same on every rank.
struct Passages {
  std::int64_t count = 0;
  /// Fills length + 1 tokens, the last ones as it likes where the passage is shorter: what comes later changes nothing before.
  std::function<void(std::int64_t passage, std::span<std::int32_t> tokens)> read;
  /// Of the sequence's targets, which are its tokens 1 … length numbered from 0, those that count.
  std::function<model::UnitRange(std::int64_t passage)> targets;
  /// Where the documents of its length tokens begin, for a model whose PassShape::documents are kept apart.
  std::function<void(std::int64_t passage, std::span<std::int32_t> starts)> documents = {};
};

struct PassageScore {
  double log_probability = 0;   ///< natural logarithm, of all targets together
  bool all_most_likely = true;  ///< greedy decoding would have said the same
};

/// Scores of all passages, on every rank, the same for any number of ranks but for the rounding of products. Collective. `progress` is
/// told how many are done.
std::vector<PassageScore> score(LoadedModel&, const Passages&, const std::function<void(std::int64_t done)>& progress = {});

}  // namespace flotilla::inference
