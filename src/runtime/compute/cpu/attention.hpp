#pragma once
#include <span>
#include <vector>

#include "attention_blocks.hpp"
#include "dropout.hpp"
#include "kernels.hpp"
#include "parallel.hpp"

namespace flotilla::compute::cpu {

/// Causal attention of a microbatch, forward and backward, over all keys or a window of them. Work is dealt in (sequence, head) and blocks
/// of queries forward, in (sequence, group of heads that share keys) backward; no sum depends on who does what.
template <class E>
class Attention {
 public:
  Attention(const Setup&, Products&);

  void forward(const Task&, const E* qkv, E* output, float* log_sum_exp, Workspace&);
  /// The same with the keys and values of Task::cached tokens before, to which those of these tokens are added (model::cache_size).
  void forward_cached(const Task&, const E* qkv, E* cache, E* output, float* log_sum_exp, Workspace&);
  /// `gradient` is of `output`.
  void backward(const Task&, const E* qkv, const E* output, const float* log_sum_exp, const E* gradient, E* qkv_gradient, Workspace&);

 private:
  struct Block {
    std::int64_t first_query = 0, rows = 0, first_key = 0, keys = 0;
    std::int64_t first_row = 0;  ///< of the tokens at hand, the first query
    Product *scores = nullptr, *values = nullptr;
    Product *probability_gradient = nullptr, *query_gradient = nullptr, *key_gradient = nullptr, *value_gradient = nullptr;
    std::vector<Block> narrower;  ///< as narrower_specs
  };
  struct Kind {  // of attention: blocks of the model that see the same window
    int window = 0;
    std::vector<AttentionSpecs> specs;
    std::vector<Block> blocks;
    bool backward_ready = false;
  };
  struct Keys {  // and values, of the sequences one after the other
    KeyPlaces places;
    const E* first;
    std::int64_t sequence;  ///< from sequence to sequence
  };
  struct Pass {  // one call's operands
    const Task& task;
    int window;
    std::span<const Block> blocks;
    Dropout dropout;
    const E *qkv, *output;
    E* result;
    const E* gradient;
    float* log_sum_exp;
    Keys keys;
    const std::int32_t* starts;  ///< of documents, by sequence and token; null: one document a sequence
  };
  struct Temporaries {  // one thread's
    float *scores, *gradients, *key_gradient, *value_gradient;
    std::byte* scratch;
    int thread;
  };

  const Kind& prepared(const Task&, bool backward);
  Block whole_block(const AttentionSpecs&, bool backward);
  /// The block, less keys in front of its first query's document: no later query sees them either.
  const Block& narrowed(const Pass&, const Block&, std::int64_t sequence) const;
  /// Its rows, keys and forward products.
  Block forward_block(const AttentionSpecs&);
  Product* prepare(const ProductSpec&);
  Keys beside_queries(const E* qkv) const;
  void append(const Task&, const E* qkv, E* cache) const;
  void run_forward(const Pass&, Workspace&);
  AttentionBlock describe(const Pass&, const Block&, std::int64_t sequence, std::int64_t head, float* scores) const;
  bool run_forward(const Pass&, const Block&, std::int64_t sequence, std::int64_t head, const Temporaries&) const;
  bool run_backward(const Pass&, const Block&, std::int64_t sequence, std::int64_t head, const Temporaries&) const;
  bool run_backward(const Pass&, std::int64_t sequence, std::int64_t group, const Temporaries&) const;

  const Setup& setup_;
  Products& products_;
  const Kernels<E>& kernels_;
  HeadPlaces layout_;
  std::int64_t first_head_, length_, pitch_;
  /// From row to row of a head's key or value gradients: in place where they are fp32, in a matrix of their own where they are not.
  std::int64_t gradient_row_;
  std::vector<Kind> kinds_;
  std::int64_t scratch_per_thread_ = 0;
};

}  // namespace flotilla::compute::cpu
