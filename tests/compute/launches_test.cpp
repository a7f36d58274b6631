// How many kernels, products and copies an operation is on a GPU, counted by the stand-in driver.
#include <gtest/gtest.h>

#include "compute/device_mirror.hpp"
#include "compute/harness.hpp"

namespace flotilla::compute::test {
namespace {

using model::Operation;

constexpr Operation forward[] = {Operation::attention_forward, Operation::mlp_forward, Operation::block_end_forward};
constexpr Operation backward[] = {Operation::mlp_backward, Operation::attention_backward, Operation::block_begin_backward};

std::int64_t sum(std::span<const Operation> operations) {
  std::int64_t all = 0;
  for (const Operation each : operations) all += enqueued().at(each);
  return all;
}

struct Family {
  const char* model;
  bool drops;
  std::int64_t forward, backward;  ///< of a block
};

void expect_launches(const Family& family) {
  Case c{.model = model::built_in(family.model)};
  c.model.dropout = c.model.attention_dropout = family.drops ? 0.1 : 0;
  c.microbatches = {1};
  run(c, random_parameters(c.model, 1), random_tokens(c.model, 1, c.length, 2));
  EXPECT_EQ(sum(forward), family.forward) << family.model;
  EXPECT_EQ(sum(backward), family.backward) << family.model;
}

/// Of these, 4 forward and 8 back are products. Dropout is part of kernels that are there, but where nothing else follows a product on its
/// way back.
TEST(Launches, OfABlockAreFew) {
  for (const bool drops : {false, true}) {
    expect_launches({"gpt2-tiny", drops, 9, 21});
    expect_launches({"opt-post-tiny", drops, 7, 20});
    expect_launches({"gpt-neo-tiny", drops, 9, 19});
    expect_launches({"llama-tiny", drops, 10, drops ? 17 : 16});
    expect_launches({"qwen3-tiny", drops, 11, drops ? 19 : 18});
    expect_launches({"pythia-tiny", drops, 11, drops ? 25 : 26});
    expect_launches({"bloom-tiny", drops, 9, 21});
    expect_launches({"gemma2-tiny", drops, 12, drops ? 22 : 20});
    expect_launches({"gemma3-tiny", drops, 13, drops ? 24 : 22});
  }
}

}  // namespace
}  // namespace flotilla::compute::test
