// Training on one rank and on several against PyTorch from the weights that PyTorch has written: loss, gradients, and parameters after a
// few AdamW updates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "flotilla/mpi/communicator.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/weights/load.hpp"
#include "reference/reference_numbers.hpp"
#include "support/temporary_folder.hpp"
#include "train/fixture.hpp"
#include "weights/folder.hpp"

namespace flotilla::train {
namespace {

using tests::ReferenceNumbers;

/// Wider than for gradients, for two reasons. Adam divides a gradient by its own size: an error of 1e-6 of a tensor's gradient, fp32's, is
/// 1e-3 of an element a thousand times smaller than the others, and so of its step, which is as large as theirs. Such elements are about
/// one in a thousand, so by norm steps differ by 1e-3 * sqrt(1e-3) = 3e-5. And parameters near 1, the norms', are rounded by up to 6e-8 at
/// every update, which is 1e-5 of four updates of 2e-3.
constexpr double update_tolerance = 1e-4;

Options options() {
  Options options;
  options.learning_rates = {{0, {.peak = 2e-3, .minimum = 2e-4, .warmup_steps = 2, .total_steps = 5}}};
  options.deadline = tests::patience;
  return options;
}

/// A file of exactly one batch: every step sees the same sequences, in another order.
class BatchFile {
 public:
  explicit BatchFile(const model::Config& model) {
    const auto tokens = tests::reference_tokens(model);
    std::ofstream{path_, std::ios::binary}.write(reinterpret_cast<const char*>(tokens.data()),
                                                 static_cast<std::streamsize>(tokens.size() * sizeof(tokens[0])));
  }

  data::Sampler sampler(const plan::Plan& plan) const {
    data::CorpusOptions files;
    files.training = {path_};
    files.format = data::Format::raw_uint16;
    files.validation_fraction = 0;
    return {data::open_corpora(files).training,
            {.seed = 3, .length = plan.length, .global_batch = plan.global_batch, .vocabulary = plan.model.vocabulary}};
  }

 private:
  tests::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "batch.u16";
};

/// Calls f(element of the shard, element of the whole).
void each_element(const model::Tensor& tensor, const plan::Shard& shard, const std::function<void(std::size_t, std::size_t)>& f) {
  for (const auto& box : plan::boxes(tensor, shard))
    for (std::int64_t o = 0; o < box.outer; ++o)
      for (std::int64_t i = 0; i < box.inner; ++i)
        f(static_cast<std::size_t>(box.local_offset + o * box.local_stride + i),
          static_cast<std::size_t>(box.global_offset + o * box.global_stride + i));
}

std::unique_ptr<Trainer> trainer(const std::string& name, const plan::Plan& plan) {
  const BatchFile file{plan.model};
  auto program = program::lower(plan, tests::runtime());
  program::require_valid(program);
  auto made = std::make_unique<Trainer>(tests::everybody(), std::move(program),
                                        program::lower_evaluation(plan, tests::runtime(), plan.global_batch), file.sampler(plan),
                                        file.sampler(plan), options());
  const tests::ModelFolder folder{name};
  weights::load(tests::everybody(), folder, plan.model, made->state(), tests::patience);
  made->adopt(0);
  return made;
}

/// Sums over the active ranks of every rank's values.
std::vector<double> sum_over_crew(const std::vector<double>& mine) {
  const auto all = mpi::all_gather_bytes(tests::everybody().control(), std::as_bytes(std::span{mine}), tests::patience);
  const auto* values = reinterpret_cast<const double*>(all.data());
  std::vector<double> sum(mine.size());
  for (std::size_t k = 0; k < all.size() / sizeof(double); ++k) sum[k % sum.size()] += values[k];
  return sum;
}

/// Norm of (ours - reference) by tensor over the elements that count, each once wherever it is owned; fails unless all are there.
using Values = std::function<std::span<const float>(const checkpoint::LocalTensor&)>;
using Counts = std::function<bool(const model::Tensor&, std::size_t)>;
std::vector<double> distances(Trainer& ours, const Values& values, const std::map<std::string, std::vector<double>>& reference,
                              const Counts& counts) {
  const auto state = ours.state();
  const auto& tensors = *state.tensors;
  std::vector<double> squares(tensors.size()), elements(tensors.size());
  for (const auto& part : state.parts) {
    if (!part.owner) continue;
    const auto t = static_cast<std::size_t>(part.tensor);
    const auto mine = values(part);
    const auto& whole = reference.at(tensors[t].name);
    each_element(tensors[t], part.shard, [&](std::size_t local, std::size_t global) {
      const double apart = counts(tensors[t], global) ? double{mine[local]} - whole[global] : 0;
      squares[t] += apart * apart;
      ++elements[t];
    });
  }
  squares = sum_over_crew(squares);
  elements = sum_over_crew(elements);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    EXPECT_EQ(elements[t], static_cast<double>(tensors[t].elements())) << tensors[t].name;
    squares[t] = std::sqrt(squares[t]);
  }
  return squares;
}

/// Everything but the bias of keys: by softmax's shift invariance its gradient is zero, what is computed is noise, and Adam makes whole
/// steps of noise. Nothing else depends on it. Turned by angles that are slow over ten positions, it is nearly so (llama_tied, gpt_neox;
/// the others with rotation have no biases). Its gradient is compared all the same, by the norm of the whole tensor.
bool is_determined(const model::Tensor& tensor, std::size_t element) {
  if (!tensor.name.ends_with("qkv.bias")) return true;
  // All queries, all keys, all values; or head after head its own.
  const auto all = static_cast<std::size_t>(tensor.fused == 3 ? tensor.shape[0] : tensor.unit);
  return element % all / (all / 3) != 1;
}

double update_norm(const ReferenceNumbers& numbers, const model::Tensor& tensor) {
  const auto start = tests::reference_weights(tensor);
  const auto& end = numbers.updated.at(tensor.name);
  double squares = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const double step = is_determined(tensor, i) ? end[i] - start[i] : 0;
    squares += step * step;
  }
  return std::sqrt(squares);
}

void expect_gradients(Trainer& ours, const ReferenceNumbers& want) {
  const auto apart = distances(
      ours, [&](const auto& part) { return ours.gradient(part.tensor); }, want.gradients, [](const auto&, std::size_t) { return true; });
  const auto scales = tests::gradient_scales(want);
  for (std::size_t t = 0; t < apart.size(); ++t)
    EXPECT_LE(apart[t], tests::reference_tolerance * scales[t]) << "gradient of " << ours.program().tensors[t].name;
}

void expect_updated(Trainer& ours, const ReferenceNumbers& want) {
  const auto apart = distances(
      ours, [](const auto& part) { return std::span<const float>{part.parameters}; }, want.updated, is_determined);
  for (std::size_t t = 0; t < apart.size(); ++t) {
    const auto& tensor = ours.program().tensors[t];
    EXPECT_LE(apart[t], update_tolerance * update_norm(want, tensor)) << "updates of " << tensor.name;
  }
}

void expect_same_training(const std::string& name, const ReferenceNumbers& want, int data, int pipeline, int tensor) {
  const int microbatch = data == 1 ? 3 : 1;  // 3 leaves a short one at the end
  const auto plan = plan::even_plan(want.model, want.length, want.sequences, Precision::fp32, data, pipeline, tensor, microbatch);
  SCOPED_TRACE(want.model.name + " " + plan::summary(plan));
  const auto ours = trainer(name, plan);
  EXPECT_NEAR(ours->evaluate().mean(), want.steps[0].loss, tests::reference_tolerance * want.steps[0].loss);
  for (std::size_t step = 0; step < want.steps.size(); ++step) {
    const auto got = ours->step(static_cast<std::int64_t>(step));
    SCOPED_TRACE("step " + std::to_string(step));
    EXPECT_NEAR(got.loss, want.steps[step].loss, tests::reference_tolerance * want.steps[step].loss);
    EXPECT_NEAR(got.gradient_norm, want.steps[step].gradient_norm, tests::reference_tolerance * want.steps[step].gradient_norm);
    EXPECT_NEAR(got.learning_rate, want.steps[step].learning_rate, 1e-12);
    if (step == 0) expect_gradients(*ours, want);
  }
  expect_updated(*ours, want);
}

class PyTorch : public ::testing::TestWithParam<const char*> {};

TEST_P(PyTorch, SameTraining) {
  const auto want = tests::reference_numbers(GetParam());
  const int ranks = tests::everybody().size();
  for (int tensor = 1; tensor <= model::largest_tensor_parallel(want.model); ++tensor)
    for (int pipeline = 1; pipeline <= want.model.layers(); ++pipeline)
      for (int data = 1; data <= want.sequences; ++data)
        if (data * pipeline * tensor == ranks) expect_same_training(GetParam(), want, data, pipeline, tensor);
}

INSTANTIATE_TEST_SUITE_P(Models, PyTorch, ::testing::ValuesIn(tests::reference_models));

}  // namespace
}  // namespace flotilla::train
