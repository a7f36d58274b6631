#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/compute/backend.hpp"

/// In a program of its own: oneDNN reads the instruction set it may use once, before its first primitive.
namespace flotilla::compute::test {
namespace {

TEST(Refusal, Bf16WithoutAvx512SaysWhatToDo) {
  ASSERT_EQ(setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1), 0);
  const model::Config model = model::built_in("gpt2-mini");
  EXPECT_NO_THROW(library_scratch({model, 16, 1, 0, Precision::fp32, 1, 1}, 1));
  try {
    library_scratch({model, 16, 1, 0, Precision::bf16, 1, 1}, 1);
    FAIL() << "bf16 without AVX-512 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    EXPECT_NE(std::string{error.what()}.find("use fp32"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace flotilla::compute::test
