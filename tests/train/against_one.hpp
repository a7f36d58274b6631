#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "flotilla/mpi/communicator.hpp"
#include "program/random_plan.hpp"
#include "train/fixture.hpp"

/// What a trainer of several ranks made, against a trainer of one rank that has all of it.
namespace flotilla::tests {

/// Calls visit(data, pipeline, tensor) for all degrees up to four that take everybody() and that the model allows.
template <class Visit>
void for_all_degrees(const model::Config& model, Visit visit) {
  for (int data : {1, 2, 3, 4})
    for (int pipeline : {1, 2, 3, 4})
      for (int tensor : {1, 2, 3, 4})
        if (data * pipeline * tensor == everybody().size() && tensor <= model::largest_tensor_parallel(model))
          visit(data, pipeline, tensor);
}

/// A random plan of everybody() in fp32.
inline plan::Plan any_plan_of_all(std::mt19937& random) {
  auto plan = any_plan(random);
  while (plan::rank_count(plan) != everybody().size() || plan.precision != Precision::fp32) plan = any_plan(random);
  return plan;
}

inline double sum_over(const comm::World& crew, double value) {
  double sum = 0;
  for (const double one : mpi::all_gather(crew.control(), value, patience)) sum += one;
  return sum;
}

/// Parameters of the frozen tensors that this rank holds, one after the other.
inline std::vector<float> frozen_values(train::Trainer& trainer) {
  std::vector<float> values;
  const auto state = trainer.state();
  for (const auto& part : state.parts) {
    if ((*state.tensors)[static_cast<std::size_t>(part.tensor)].trained) continue;
    EXPECT_TRUE(part.moment1.empty() && part.moment2.empty());
    values.insert(values.end(), part.parameters.begin(), part.parameters.end());
  }
  return values;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Collective over everybody(): gradients of what is trained against those of `one`, each element once; none of what is frozen. Returns
/// their norm.
inline double expect_gradients_of(train::Trainer& one, train::Trainer& ours, double tolerance, const std::string& what) {
  double apart = 0, norm = 0, expected = 0, elements = 0;
  for (std::size_t t = 0; t < ours.program().tensors.size(); ++t) {
    const auto& tensor = ours.program().tensors[t];
    if (!tensor.trained) {
      EXPECT_TRUE(ours.gradient(static_cast<int>(t)).empty()) << tensor.name;
      continue;
    }
    expected += static_cast<double>(tensor.elements());
    for (const float g : one.gradient(static_cast<int>(t))) norm += double{g} * g;
  }
  for (const auto& mine : ours.owned_gradients()) {
    const auto whole = one.gradient(mine.tensor);
    for (const auto& box : mine.boxes)
      for (std::int64_t o = 0; o < box.outer; ++o)
        for (std::int64_t i = 0; i < box.inner; ++i, ++elements) {
          const double d = double{mine.values[static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)]} -
                           whole[static_cast<std::size_t>(box.global_offset + o * box.global_stride + i)];
          apart += d * d;
        }
  }
  EXPECT_EQ(sum_over(everybody(), elements), expected) << what;
  EXPECT_LE(std::sqrt(sum_over(everybody(), apart)), tolerance * std::sqrt(norm)) << what;
  return std::sqrt(norm);
}

/// Collective over everybody(): three steps and an evaluation have the losses of `one`, and what is frozen keeps its bits.
inline void expect_training_of_the_rest(train::Trainer& one, train::Trainer& ours, double tolerance, const std::string& what) {
  const auto before = frozen_values(ours);
  for (int step = 0; step < 3; ++step) {
    const double want = one.step(step).loss, got = ours.step(step).loss;
    EXPECT_NEAR(got, want, tolerance * want) << what << " step " << step;
  }
  EXPECT_NEAR(ours.evaluate().mean(), one.evaluate().mean(), 10 * tolerance) << what;
  EXPECT_TRUE(same_bits(frozen_values(ours), before)) << what;
  EXPECT_GT(sum_over(everybody(), static_cast<double>(before.size())), 0) << what;
}

}  // namespace flotilla::tests
