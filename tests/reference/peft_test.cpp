// The adapters' forward and backward passes against PEFT's: loss, and every gradient of the same adapters beside the same weights.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/harness.hpp"
#include "reference/reference_numbers.hpp"

namespace flotilla::compute::test {
namespace {

using tests::AdapterNumbers;
using tests::ReferenceNumbers;

std::vector<std::int32_t> tokens_of(const model::Config& model) {
  const auto stream = tests::reference_tokens(model);
  std::vector<std::int32_t> tokens;
  for (auto first = stream.begin(); first + ReferenceNumbers::length < stream.end(); first += ReferenceNumbers::length)
    tokens.insert(tokens.end(), first, first + ReferenceNumbers::length + 1);
  return tokens;
}

class Peft : public ::testing::TestWithParam<const char*> {
 protected:
  const AdapterNumbers want_ = tests::adapter_numbers(GetParam());
};

TEST_P(Peft, LossAndGradientsOfAdapters) {
  Values parameters;
  for (const auto& tensor : model::tensors(want_.model)) parameters[tensor.name] = tests::reference_weights(tensor);
  for (const int tensor_parallel : {1, 2, 3})
    for (const bool split : {false, true}) {
      Case c;
      c.model = want_.model;
      c.length = ReferenceNumbers::length;
      c.microbatches = {3, 1};
      c.tensor_parallel = tensor_parallel;
      c.split = split;
      const auto got = run(c, parameters, tokens_of(c.model));
      SCOPED_TRACE(testing::Message() << "tensor parallel " << tensor_parallel << (split ? ", split" : ""));
      EXPECT_NEAR(got.loss, want_.step.loss, tests::reference_tolerance * want_.step.loss);
      double squares = 0;
      for (const auto& [name, gradient] : want_.gradients) {
        EXPECT_LE(relative_difference(got.gradients.at(name), gradient, 0), tests::reference_tolerance) << name;
        squares += norm(got.gradients.at(name)) * norm(got.gradients.at(name));
      }
      EXPECT_NEAR(std::sqrt(squares), want_.step.gradient_norm, tests::reference_tolerance * want_.step.gradient_norm);
    }
}

TEST_P(Peft, NumbersAreNotTrivial) {
  for (const auto& [name, gradient] : want_.gradients) EXPECT_GT(norm(gradient), 1e-3) << name;
  const auto tensors = model::tensors(want_.model);
  for (const auto& tensor : tensors)
    if (const auto merged = want_.merged.find(tensor.name); merged != want_.merged.end()) {
      EXPECT_GT(relative_difference(tests::reference_weights(tensor), merged->second, 0), 0.1) << tensor.name;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Peft, ::testing::ValuesIn(tests::adapted_models));

}  // namespace
}  // namespace flotilla::compute::test
