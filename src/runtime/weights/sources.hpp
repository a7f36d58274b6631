#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/model/tensors.hpp"

namespace flotilla::weights {

/// One of Hugging Face's tensors as a part of one of ours. Both are rows of equally many columns (a vector's have one), where a transposed
/// one counts as turned back. Rows correspond in blocks: row their_first + b * their_stride + i of theirs is row our_first + b * our_stride
/// + i of ours, for every block b < blocks and i < block_rows.
struct TensorSource {
  std::string name;
  std::vector<std::int64_t> shape;  ///< as in their files
  bool transposed = false;
  std::int64_t blocks = 1, block_rows = 0;
  std::int64_t their_first = 0, their_stride = 0;
  std::int64_t our_first = 0, our_stride = 0;
};

/// For each of model::tensors(config), in their order, the sources that together are all of it. Pure. Throws Error{unavailable} for a
/// family whose names are not known.
std::vector<std::vector<TensorSource>> sources(const model::Config&);

/// Rows and columns of a matrix or a vector of ours.
std::int64_t rows_of(const model::Tensor&);
std::int64_t columns_of(const model::Tensor&);

}  // namespace flotilla::weights
