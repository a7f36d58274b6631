#pragma once
#include "cudnn_graph.hpp"
#include "flotilla/base/precision.hpp"

namespace flotilla::compute::cuda::cudnn {

/// Distances in elements.
struct HeadStrides {
  std::int64_t batch = 0, head = 0, row = 0;
  bool operator==(const HeadStrides&) const = default;
};

/// Causal attention of `heads` query heads over `groups` heads of keys and values, as in "Attention Is All You Need" (Vaswani et al. 2017)
/// with a window (Beltagy et al. 2020).
struct AttentionProblem {
  Precision precision = Precision::bf16;
  std::int64_t batch = 1, heads = 1, groups = 1, length = 1, size = 1;
  std::int64_t window = 0;  ///< keys that a query sees, itself the last; 0: all before it
  float scale = 1;
  HeadStrides query{}, key{}, value{}, output{};  ///< gradients are as what they are of
  std::int64_t statistics_batch = 0;              ///< of log_sum_exp and dots: (batch, heads, length), heads side by side
  bool deterministic = true;
  bool operator==(const AttentionProblem&) const = default;
};

/// Bytes that plans of both directions need at most on any device, as cuDNN 9 was seen to ask for: a closed form, so that a forecast needs
/// no cuDNN. In order, the gradients of scores are a matrix in memory (sm_80, sm_90); else the sums of the queries' gradients are, twice.
Bytes attention_workspace(const AttentionProblem&);

/// Addresses on the device; what a direction does not use may be null. Gradients of queries, keys and values stand as what they are of.
struct AttentionOperands {
  std::byte *query = nullptr, *key = nullptr, *value = nullptr, *output = nullptr;
  float* log_sum_exp = nullptr;
  std::byte *output_gradient = nullptr, *query_gradient = nullptr, *key_gradient = nullptr, *value_gradient = nullptr;
  float* dots = nullptr;  ///< scratch, as log_sum_exp
};

/// Both directions, compiled for a target. Throws Error{unavailable} with cuDNN's words where it refuses.
class AttentionPlans {
 public:
  /// `blackwell`: of sm_100 and sm_103, which have an engine that adds in order without memory for it.
  AttentionPlans(const AttentionProblem&, const GraphTarget&, bool blackwell);

  /// What `workspace` of run needs.
  Bytes forward_workspace() const { return forward_.workspace(); }
  Bytes backward_workspace() const;
  void forward(const Context&, const AttentionOperands&, std::byte* workspace);
  void backward(const Context&, const AttentionOperands&, std::byte* workspace);

 private:
  struct Tensors {
    CudnnGraph::Tensor query = -1, key = -1, value = -1, output = -1, log_sum_exp = -1;
    CudnnGraph::Tensor output_gradient = -1, dots = -1, query_sum = -1, query_gradient = -1, key_gradient = -1, value_gradient = -1;
  };
  friend struct AttentionGraph;

  Tensors forward_tensors_, backward_tensors_;
  Bytes query_sum_;  ///< at the start of the workspace: fp32 sums of the queries' gradients, where order is left to chance
  ExecutionPlan forward_, backward_;
};

}  // namespace flotilla::compute::cuda::cudnn
