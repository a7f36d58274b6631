#include "product_spec.hpp"

namespace flotilla::compute {

ProductSpec linear_forward(Precision p, std::int64_t n, std::int64_t out, std::int64_t in) {
  return {.m = n, .n = out, .k = in, .a_row = in, .a_column = 1, .b_row = 1, .b_column = in, .c_row = out, .precision = p};
}

ProductSpec linear_input_gradient(Precision p, std::int64_t n, std::int64_t out, std::int64_t in) {
  return {.m = n, .n = in, .k = out, .a_row = out, .a_column = 1, .b_row = in, .b_column = 1, .c_row = in, .precision = p};
}

ProductSpec linear_weight_gradient(Precision p, std::int64_t n, std::int64_t out, std::int64_t in) {
  return {.m = out,
          .n = in,
          .k = n,
          .a_row = 1,
          .a_column = out,
          .b_row = in,
          .b_column = 1,
          .c_row = in,
          .precision = p,
          .c_fp32 = true,
          .accumulate = true};
}

}  // namespace flotilla::compute
