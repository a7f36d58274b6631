#pragma once
#include <algorithm>
#include <vector>

namespace flotilla::model {

/// Feed-forward layers as a mixture of experts (Shazeer et al. 2017): a router sends each token through some of them. Forecast, never
/// executed by us. How experts are distributed over ranks is said by who executes (LayerShape::expert_parallel).
struct Experts {
  int count = 0;                       ///< of a block; 0: none
  int per_token = 1;                   ///< that a token goes through
  int width = 0;                       ///< columns of one, as Config::feed_forward is of a dense layer
  int shared_width = 0;                ///< columns of the layer that every token goes through besides; 0: none
  bool shared_gate = false;            ///< a product with one row of weights scales what that layer puts out (Qwen2-MoE)
  std::vector<int> dense_blocks = {};  ///< in order: these have a dense feed-forward layer instead

  bool operator==(const Experts&) const = default;

  bool on() const { return count > 0; }
  bool in_block(int block) const { return on() && !std::ranges::binary_search(dense_blocks, block); }
  /// Of a block, on each of so many ranks that hold every expert once.
  int on_each_of(int ranks) const { return (count + ranks - 1) / ranks; }
};

}  // namespace flotilla::model
