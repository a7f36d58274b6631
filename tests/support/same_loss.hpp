#pragma once
#include <gtest/gtest.h>

#include <string>

#include "flotilla/compute/backend.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::tests {

/// Of the same tokens, cut among ranks otherwise. oneDNN's products from AVX-512 on ("brg:") add in an order that the number of rows does
/// not change; those before it ("gemm:jit") do not promise that.
inline void expect_same_loss(double loss, double expected, const std::string& what = "") {
  static const bool by_rows =
      compute::make_backend({model::built_in("gpt2-tiny"), 16, 1, 0, Precision::fp32, 1, 7})->description().find("brg:") ==
      std::string::npos;
  if (by_rows)
    EXPECT_NEAR(loss, expected, 1e-6 * expected) << what;
  else
    EXPECT_EQ(loss, expected) << what;
}

}  // namespace flotilla::tests
