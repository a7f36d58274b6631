#include <algorithm>

#include "flotilla/model/adapters.hpp"
#include "flotilla/model/operations.hpp"

/// Closed forms of the temporaries that each operation takes, in the order in which the CPU kernels take them.
namespace flotilla::model {
namespace {

constexpr Bytes floats(std::int64_t count) { return align_up({4 * count}, 64); }

struct Terms {
  std::int64_t n, held, d, w, attention, qkv, up, routes, rows, pitch, length, head_size;
  std::int64_t threads;
  bool pre, parallel, output_norms, drops, relu, half, rms, head_norms, qkv_bias, output_bias, feed_forward_bias,
      shares;  // shares: the tokens between products
  Bytes e;

  Terms(const Config& c, const LayerShape& s, int thread_count)
      : n{s.tokens()},
        held{s.rows()},
        d{c.hidden},
        w{c.embedding_width},
        attention{std::int64_t{local_heads(c, s)} * c.head_size()},
        qkv{qkv_width(c, s)},
        up{up_width(c, s)},
        routes{c.experts.on() ? c.experts.per_token : 0},
        rows{std::min(s.length, attention_block)},
        pitch{attention_pitch(s.cache > 0 ? s.cache : s.length)},
        length{s.length},
        head_size{c.head_size()},
        threads{thread_count},
        pre{c.norm == NormPlacement::pre},
        parallel{c.parallel_residual},
        output_norms{c.output_norms},
        drops{c.dropout > 0},
        relu{c.activation == Activation::relu},
        half{s.precision != Precision::fp32},
        rms{c.norm_kind == NormKind::rms},
        head_norms{c.query_key_norms},
        qkv_bias{c.qkv_bias},
        output_bias{c.attention_output_bias},
        feed_forward_bias{c.feed_forward_bias},
        shares{s.sequence_parallel},
        e{element_size(s.precision)} {}

  Bytes elements(std::int64_t count) const { return align_up(e * count, 64); }
  /// The gradient before the dropout or the norm it went through.
  Bytes masked() const { return drops || output_norms ? elements(n * d) : Bytes{}; }
  /// Sums over rows, one partial sum per thread.
  Bytes column_sums(std::int64_t width) const { return threads * floats(width); }
  Bytes bias_sums(bool present, std::int64_t width) const { return present ? column_sums(width) : Bytes{}; }
  Bytes norm_sums() const { return column_sums(rms ? d : 2 * d); }
};

/// Scores of a block of queries against all keys.
Bytes score_block(const Terms& t) { return floats(t.rows * t.pitch); }

Bytes attention_backward_thread(const Terms& t) {
  const Bytes key_value = t.half ? 2 * floats(t.length * t.head_size) : Bytes{};  // fp32 sums of the key and value gradients
  return 2 * score_block(t) + key_value;
}

/// Back through sums and norms to the gradient before a dropout, which goes to `partial` where tokens are shared.
Bytes mlp_rows_backward(const Terms& t) {
  return (t.pre && !t.output_norms ? Bytes{} : t.norm_sums()) + t.bias_sums(t.feed_forward_bias, t.d);
}
Bytes attention_rows_backward(const Terms& t) { return (t.output_norms ? 2 : 1) * t.norm_sums() + t.bias_sums(t.output_bias, t.d); }

/// Gradients of tokens in the order of their experts: what comes into the products, then what goes out.
Bytes routed_gradient(const Terms& t) { return t.elements(t.routes * t.n * t.d); }

Bytes mlp_backward(const Terms& t) {
  const Bytes products = routed_gradient(t) + t.elements(t.n * t.up) + t.bias_sums(t.feed_forward_bias, t.up);
  return t.shares ? products : t.masked() + mlp_rows_backward(t) + products;
}

/// The halves write what they keep where it is kept, the gradient before a dropout among it.
Bytes mlp_backward_input(const Terms& t) {
  return routed_gradient(t) + (t.relu ? Bytes{} : t.elements(t.n * t.up)) + t.bias_sums(t.feed_forward_bias, t.up) +
         (t.shares ? Bytes{} : mlp_rows_backward(t));
}

Bytes attention_products_backward(const Terms& t) {
  return t.elements(t.n * t.attention) + t.elements(t.n * t.qkv) + t.threads * attention_backward_thread(t) +
         t.bias_sums(t.head_norms, 2 * t.head_size);
}

Bytes attention_backward_weights(const Terms& t) { return t.bias_sums(t.qkv_bias, t.qkv); }

Bytes attention_backward(const Terms& t) {
  const Bytes products = attention_products_backward(t) + attention_backward_weights(t);
  return t.shares ? products : (t.parallel ? Bytes{} : t.masked()) + attention_rows_backward(t) + products;
}

Bytes attention_backward_input(const Terms& t) {
  return attention_products_backward(t) + (t.shares ? Bytes{} : attention_rows_backward(t));
}

Bytes head_end_backward(const Config& c, const Terms& t) {
  return (c.projects() && c.final_norm ? t.elements(t.held * t.d) : Bytes{}) + (c.final_norm ? t.norm_sums() : Bytes{});
}

Bytes own_workspace(const Config& c, const LayerShape& s, Operation operation, int threads) {
  const Terms t{c, s, threads};
  switch (operation) {
    case Operation::attention_forward: return t.threads * score_block(t);
    case Operation::head_end_backward: return head_end_backward(c, t);
    case Operation::mlp_backward: return mlp_backward(t);
    case Operation::attention_backward: return attention_backward(t);
    case Operation::mlp_backward_input: return mlp_backward_input(t);
    case Operation::attention_backward_input: return attention_backward_input(t);
    case Operation::attention_backward_weights: return attention_backward_weights(t);
    case Operation::block_begin_backward: return t.pre ? t.norm_sums() : Bytes{};
    case Operation::embedding_begin_backward: return c.embedding_norm ? t.norm_sums() : Bytes{};
    case Operation::embedding_backward:
      if (t.shares) return {};
      return (c.projects() ? t.elements(t.n * t.w) : Bytes{}) + (c.embedding_norm ? t.norm_sums() : Bytes{});
    case Operation::mlp_begin_backward: return mlp_rows_backward(t);
    case Operation::attention_begin_backward: return attention_rows_backward(t);
    default: return {};
  }
}

}  // namespace

Bytes workspace(const Config& c, const LayerShape& s, Operation operation, int threads) {
  return own_workspace(c, s, operation, threads) + adapter_workspace(c, s, operation);
}

}  // namespace flotilla::model
