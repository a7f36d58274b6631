#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/compute/backend.hpp"
#include "flotilla/model/tensors.hpp"

/// Drives the operations over whole models, without a program: what a trainer does, on a tensor-parallel group in one process.
namespace flotilla::compute::test {

/// Whole tensors by name, in double.
using Values = std::map<std::string, std::vector<double>>;

/// Every weight random, norms and biases too, so that no gradient is zero by symmetry.
Values random_parameters(const model::Config&, std::uint64_t seed);
/// (sequences, length + 1)
std::vector<std::int32_t> random_tokens(const model::Config&, int sequences, int length, std::uint64_t seed);

struct Case {
  model::Config model;
  int length = 8;
  std::vector<int> microbatches{3};  ///< sequences in each
  int tensor_parallel = 1;
  Precision precision = Precision::fp32;
  bool tf32 = false;  ///< on a GPU
  int threads = 1;
  std::uint64_t seed = 7;
  std::int64_t step = 3;
  bool training = true;
  float loss_scale = 1;                ///< taken out of the outcome again
  bool split = false;                  ///< backward passes in two halves, those of weights after all others of the microbatch
  bool shares = false;                 ///< members of the group hold a part of the tokens each, between products
  std::vector<std::int32_t> starts{};  ///< (sequences, length): where each token's document begins; empty: one document a sequence
  bool drops = false;                  ///< blocks drop what is cheap and compute it again

  int sequences() const {
    int sum = 0;
    for (int s : microbatches) sum += s;
    return sum;
  }
};

struct Outcome {
  double loss = 0;             ///< mean over tokens
  std::vector<double> logits;  ///< (tokens, vocabulary)
  Values gradients;
};

/// One forward and backward pass of the whole batch. Asserts (gtest) that nothing wrote outside its buffers and that tensors which every
/// member holds got the same gradient everywhere.
Outcome run(const Case&, const Values& parameters, const std::vector<std::int32_t>& tokens);

/// A small model that no extent divides evenly.
model::Config uneven_model(model::NormPlacement, model::Activation, bool projects);

/// The same, with a window in every second block and scores that are not scaled.
model::Config uneven_gpt_neo();
/// Six query heads on three heads of keys, rotated; the head tied or not.
model::Config uneven_llama(bool tied);
/// That with heads wider than their share, normed.
model::Config uneven_qwen3();
/// Six heads, of six columns each four are turned; both sub-layers read the same input.
model::Config uneven_gpt_neox();
/// Six heads with slopes (four and two more), the tokens' embedding normed.
model::Config uneven_bloom();

/// Norms of both ends of sub-layers, GeGLU, a window in every second block, scores and logits capped, the embedding scaled; six query heads
/// on three heads of keys.
model::Config uneven_gemma2();
/// That with normed heads, without caps; blocks with a window turn by angles of their own, the others by stretched ones.
model::Config uneven_gemma3();

/// The model with LoRA adapters on every target, by parts of qkv and of the feed-forward's first matrix.
model::Config adapted(model::Config, int rank, int qkv_parts, int up_parts);

double norm(const std::vector<double>&);
/// ‖a - b‖ / max(‖b‖, floor)
double relative_difference(const std::vector<double>& a, const std::vector<double>& b, double floor);
/// The largest relative_difference over the tensors, with 1e-3 of the largest norm as the floor (the key bias's gradient is zero but for
/// noise).
double worst_difference(const Values& a, const Values& b);

}  // namespace flotilla::compute::test
