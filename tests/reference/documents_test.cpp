// Documents that are kept apart against PyTorch's, with position ids that begin anew and a mask: loss, logits and every gradient.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/harness.hpp"
#include "reference/reference_numbers.hpp"

namespace flotilla::compute::test {
namespace {

using tests::ReferenceNumbers;

class PackedDocuments : public ::testing::TestWithParam<const char*> {
 protected:
  static std::vector<std::int32_t> tokens_of(const model::Config& model) {
    const auto stream = tests::reference_tokens(model);
    std::vector<std::int32_t> tokens;
    for (int s = 0; s < ReferenceNumbers::sequences; ++s)
      for (int i = 0; i <= ReferenceNumbers::length; ++i)
        tokens.push_back(stream[static_cast<std::size_t>(s * ReferenceNumbers::length + i)]);
    return tokens;
  }
  const ReferenceNumbers want_ = tests::document_numbers(GetParam());
};

TEST_P(PackedDocuments, LossLogitsAndGradients) {
  Values parameters;
  for (const auto& tensor : model::tensors(want_.model)) parameters[tensor.name] = tests::reference_weights(tensor);
  const auto scales = tests::gradient_scales(want_);
  for (const int tensor_parallel : {1, 2, 3})
    for (const bool split : {false, true}) {
      Case c;
      c.model = want_.model;
      c.length = ReferenceNumbers::length;
      c.microbatches = {3, 1};
      c.tensor_parallel = tensor_parallel;
      c.split = split;
      c.starts = tests::document_starts();
      const auto got = run(c, parameters, tokens_of(c.model));
      SCOPED_TRACE(testing::Message() << "tensor parallel " << tensor_parallel << (split ? ", split" : ""));
      EXPECT_NEAR(got.loss, want_.steps[0].loss, tests::reference_tolerance * want_.steps[0].loss);
      EXPECT_LE(relative_difference(got.logits, want_.logits, 0), tests::reference_tolerance);
      const auto tensors = model::tensors(want_.model);
      for (std::size_t t = 0; t < tensors.size(); ++t)
        EXPECT_LE(relative_difference(got.gradients.at(tensors[t].name), want_.gradients.at(tensors[t].name), scales[t]),
                  tests::reference_tolerance)
            << tensors[t].name;
    }
}

/// The same tokens as one document a sequence give other logits, but where a sequence is one.
TEST_P(PackedDocuments, AreNotJoined) {
  const auto joined = tests::reference_numbers(GetParam());
  const auto of = [&](const std::vector<double>& logits, int sequence) {
    const auto size = static_cast<std::ptrdiff_t>(logits.size()) / ReferenceNumbers::sequences;
    return std::vector<double>(logits.begin() + sequence * size, logits.begin() + (sequence + 1) * size);
  };
  for (int s = 0; s < ReferenceNumbers::sequences; ++s) {
    const double apart = relative_difference(of(want_.logits, s), of(joined.logits, s), 0);
    if (s == 1)
      EXPECT_LE(apart, 1e-7);
    else
      EXPECT_GT(apart, 1e-3) << "sequence " << s;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PackedDocuments, ::testing::ValuesIn(tests::document_models));

}  // namespace
}  // namespace flotilla::compute::test
