#pragma once
#include <cstdint>

#include "flotilla/base/precision.hpp"

/// Matrix products as values: what each library is asked for.
namespace flotilla::compute {

/// c (m, n) = scale ([c +] a (m, k) b (k, n)), or [c +] a b [+ bias (n)] [then ReLU]. Strides are in elements; rows of c are contiguous.
struct ProductSpec {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0;
  Precision precision = Precision::fp32;  ///< of a, b and bias
  bool c_fp32 = false;                    ///< c is fp32 whatever the precision
  bool accumulate = false, bias = false, relu = false;
  float scale = 1;          ///< other than 1: without bias and ReLU
  bool per_thread = false;  ///< run by one thread at a time inside a parallel region, by several at once

  bool operator==(const ProductSpec&) const = default;
};

/// y (n, out) = x (n, in) W^T with W (out, in): a linear layer forward.
ProductSpec linear_forward(Precision, std::int64_t n, std::int64_t out, std::int64_t in);
/// d x (n, in) = d y (n, out) W.
ProductSpec linear_input_gradient(Precision, std::int64_t n, std::int64_t out, std::int64_t in);
/// d W (out, in) += d y^T x, fp32.
ProductSpec linear_weight_gradient(Precision, std::int64_t n, std::int64_t out, std::int64_t in);

struct ProductOperands {
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void* c = nullptr;
};

}  // namespace flotilla::compute
