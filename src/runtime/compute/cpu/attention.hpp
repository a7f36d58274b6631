#pragma once
#include <vector>

#include "dropout.hpp"
#include "kernels.hpp"
#include "parallel.hpp"
#include "products.hpp"

namespace flotilla::compute::cpu {

/// The products of one block of queries against the keys up to its causal limit.
struct AttentionSpecs {
  std::int64_t first_query = 0, rows = 0, keys = 0;
  ProductSpec scores, values;                                                      // forward
  ProductSpec probability_gradient, query_gradient, key_gradient, value_gradient;  // backward
};
/// Last block first: it sees all keys, so its key and value gradients are stored and the others' are added. The longest comes first, too.
std::vector<AttentionSpecs> attention_specs(const Setup&, int heads);
/// For all threads at once.
std::int64_t attention_scratch(const Setup&, int heads);

/// Causal attention of a microbatch, forward and backward. Work is dealt in (sequence, head) and, forward, in blocks of queries; no sum
/// depends on who does what.
template <class E>
class Attention {
 public:
  Attention(const Setup&, Products&);

  void forward(const Task&, const E* qkv, E* output, float* log_sum_exp, Workspace&);
  /// `gradient` is of `output`.
  void backward(const Task&, const E* qkv, const E* output, const float* log_sum_exp, const E* gradient, E* qkv_gradient, Workspace&);

 private:
  struct Block {
    std::int64_t first_query = 0, rows = 0;
    Product *scores = nullptr, *values = nullptr;
    Product *probability_gradient = nullptr, *query_gradient = nullptr, *key_gradient = nullptr, *value_gradient = nullptr;
  };
  struct Pass {  // one call's operands
    const Task& task;
    Dropout dropout;
    const E *qkv, *output;
    E* result;
    const E* gradient;
    float* log_sum_exp;
  };
  struct Temporaries {  // one thread's
    float *scores, *gradients, *key_gradient, *value_gradient;
    std::byte* scratch;
    int thread;
  };

  void prepare(bool backward);
  AttentionBlock describe(const Pass&, const Block&, std::int64_t sequence, std::int64_t head, float* scores) const;
  bool run_forward(const Pass&, const Block&, std::int64_t sequence, std::int64_t head, const Temporaries&) const;
  bool run_backward(const Pass&, const Block&, std::int64_t sequence, std::int64_t head, const Temporaries&) const;
  bool run_backward(const Pass&, std::int64_t sequence, std::int64_t head, const Temporaries&) const;

  const Setup& setup_;
  Products& products_;
  const Kernels<E>& kernels_;
  std::int64_t heads_, first_head_, head_size_, length_, pitch_;
  std::vector<AttentionSpecs> specs_;
  std::vector<Block> blocks_;
  bool backward_ready_ = false;
  std::int64_t scratch_per_thread_ = 0;
};

}  // namespace flotilla::compute::cpu
