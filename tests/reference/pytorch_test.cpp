// The layers' forward and backward passes against Hugging Face's in PyTorch: loss, logits and every gradient of the same weights.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/harness.hpp"
#include "reference/reference_numbers.hpp"

namespace flotilla::compute::test {
namespace {

using tests::ReferenceNumbers;

Values weights(const model::Config& model) {
  Values values;
  for (const auto& t : model::tensors(model)) values[t.name] = tests::reference_weights(t);
  return values;
}

/// (sequences, length + 1)
std::vector<std::int32_t> batch(const model::Config& model) {
  const auto stream = tests::reference_tokens(model);
  std::vector<std::int32_t> tokens;
  for (auto first = stream.begin(); first + ReferenceNumbers::length < stream.end(); first += ReferenceNumbers::length)
    tokens.insert(tokens.end(), first, first + ReferenceNumbers::length + 1);
  return tokens;
}

class PyTorch : public ::testing::TestWithParam<const char*> {
 protected:
  Outcome computed(int tensor_parallel) const {
    Case c;
    c.model = want_.model;
    c.length = ReferenceNumbers::length;
    c.microbatches = {3, 1};
    c.tensor_parallel = tensor_parallel;
    return run(c, weights(c.model), batch(c.model));
  }

  const ReferenceNumbers want_ = tests::reference_numbers(GetParam());
};

TEST_P(PyTorch, LossLogitsAndEveryGradient) {
  const auto tensors = model::tensors(want_.model);
  const auto scales = tests::gradient_scales(want_);
  for (int tensor_parallel : {1, 2, 3}) {
    const auto got = computed(tensor_parallel);
    SCOPED_TRACE(testing::Message() << "tensor parallel " << tensor_parallel);
    EXPECT_NEAR(got.loss, want_.steps[0].loss, tests::reference_tolerance * want_.steps[0].loss);
    ASSERT_EQ(got.logits.size(), want_.logits.size());
    EXPECT_LE(relative_difference(got.logits, want_.logits, 0), tests::reference_tolerance);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const auto& name = tensors[t].name;
      ASSERT_EQ(got.gradients.at(name).size(), want_.gradients.at(name).size());
      EXPECT_LE(relative_difference(got.gradients.at(name), want_.gradients.at(name), scales[t]), tests::reference_tolerance) << name;
    }
  }
}

TEST_P(PyTorch, NumbersAreNotTrivial) {
  // A comparison of zeros would hold for any arithmetic.
  for (const auto& [name, gradient] : want_.gradients) EXPECT_GT(norm(gradient), 1e-3) << name;
  EXPECT_GT(norm(want_.logits), 0.3 * std::sqrt(static_cast<double>(want_.logits.size())));
}

INSTANTIATE_TEST_SUITE_P(Models, PyTorch, ::testing::ValuesIn(tests::reference_models));

}  // namespace
}  // namespace flotilla::compute::test
