#pragma once

namespace flotilla::compute {

/// What a model says of a token that came. Without functions: kernels of every instruction set fill it in.
struct TokenScore {
  double log_probability;  ///< natural logarithm
  bool most_likely;        ///< no token is likelier
};

}  // namespace flotilla::compute
