#include <algorithm>

#include "flotilla/model/operations.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::model {
namespace {

/// Of blocks with experts and of dense ones.
double mean(const Config& c, double of_experts, double dense) {
  const double part = static_cast<double>(c.expert_blocks()) / c.blocks;
  return part * of_experts + (1 - part) * dense;
}

/// Columns of the experts, and of the shared layer, whose weights are on this rank.
double columns_here(const Config& c, const LayerShape& s) {
  if (!c.experts.on()) return 0;
  const double each = static_cast<double>(share(c.experts.width, s.tensor_parallel, s.tensor_index).count());
  return each * c.experts.on_each_of(s.expert_parallel) + columns_through(c, s, true) - c.experts.per_token * each;
}

/// What FLOPs and traffic are made of, on this rank, for one microbatch.
struct Extents {
  // Rows: n of all tokens, r between products. Local columns: a of heads, q of qkv, raw of heads before their norms, f of the feed-forward
  // that a token goes through, u of its first product, experts those of the router. routed: experts that a token goes through. mlp:
  // elements of the feed-forward's weights. All of these means over the blocks.
  double n, r, d, w, a, q, raw, f, u, experts, routed, mlp, v, length, pairs, e;
  bool shares;  // tokens are shared between products
  Extents(const Config& c, const LayerShape& s)
      : n{static_cast<double>(s.tokens())},
        r{static_cast<double>(s.rows())},
        d{static_cast<double>(c.hidden)},
        w{static_cast<double>(c.embedding_width)},
        a{static_cast<double>(local_heads(c, s)) * c.head_size()},
        q{static_cast<double>(qkv_width(c, s))},
        raw{static_cast<double>(raw_width(c, s))},
        f{mean(c, columns_through(c, s, true), columns_through(c, s, false))},
        u{(c.gated() ? 2 : 1) * f},
        experts{mean(c, c.experts.count, 0)},
        routed{mean(c, c.experts.per_token, 0)},
        mlp{d * (mean(c, columns_here(c, s), columns_through(c, s, false)) * (c.gated() ? 3 : 2) + experts)},
        v{static_cast<double>(local_vocabulary(c, s))},
        length{static_cast<double>(s.length)},
        pairs{attention_pairs(c, s)},
        e{static_cast<double>(element_size(s.precision).count)},
        shares{s.sequence_parallel} {}
};

/// Keys that a query sees at most.
double seen(int window, int length) { return window == 0 ? length : std::min(window, length); }

bool pre_norm(const Config& c) { return c.norm == NormPlacement::pre; }

/// Products of a (n, x) by (x, y) matrix: y = x W^T once, or its two gradients.
double product(double n, double x, double y) { return 2 * n * x * y; }

double embedding_bytes(const Config& c, const Extents& x, Operation operation) {
  const double projection = c.projects() ? x.d * x.w * x.e : 0, projected = c.projects() ? x.r * x.w * x.e : 0;
  const double positions = c.has_position_table() ? std::min(x.length, x.r) : 0;  // rows of the table
  const double normed = c.embedding_norm ? 2 * x.r * x.d * x.e : 0;               // kept words: written, or read with the norm's gradient
  switch (operation) {
    case Operation::embedding_forward: return x.n * 4 + 2 * x.n * x.w * x.e;
    case Operation::embedding_end_forward: return x.r * x.w * x.e + projected + projection + (positions + x.r) * x.d * x.e + normed;
    case Operation::embedding_begin_backward:
      return x.r * (x.d + x.w) * x.e + 2 * positions * x.d * 4 + projected + projection * (1 + 8 / x.e) + normed;
    default:
      if (x.shares) return x.n * 4 + x.n * x.w * (x.e + 8);
      return x.n * 4 + x.n * x.d * x.e + 2 * (x.n * x.w + positions * x.d) * 4 + projected + projection * (1 + 8 / x.e) + normed;
  }
}

/// Of a norm behind a sub-layer: its input, written or read; back, the gradient before it, too, which is kept apart from the residual
/// path's.
double output_norm_bytes(const Config& c, const Extents& x, bool backward) {
  return c.output_norms ? (backward ? 3 : 1) * x.r * x.d * x.e : 0;
}

double attention_bytes(const Config& c, const Extents& x, bool backward) {
  const double weights = x.d * (x.q + x.a);  // elements of qkv and out
  // Norms of heads read them and write them again, beside what is kept.
  const double saved = x.n * (x.q + x.a + 3 * x.raw + (pre_norm(c) && !x.shares ? x.d : 0));
  if (!backward) return (x.n * 2 * x.d + saved + weights) * x.e;
  if (x.shares) return (x.n * 3 * x.d + saved + weights) * x.e + 8 * weights;
  return (x.n * 4 * x.d + saved + weights) * x.e + x.n * x.d * x.e + 8 * weights + output_norm_bytes(c, x, true);
}

/// Of a token for each of its experts, in rows of width d: ordered by expert (read and written), into the products and out of them, ordered
/// back; on the way back likewise, and what went into the products once more. Probabilities of all experts are written, or read.
double routed_bytes(const Extents& x, bool backward) { return (backward ? 7 : 6) * x.routed * x.n * x.d * x.e + 4 * x.n * x.experts; }

double mlp_bytes(const Config& c, const Extents& x, bool backward) {
  const double weights = x.mlp;
  const double saved =
      x.n * ((x.shares ? 0 : 2 * x.d) + x.f + (c.activation == Activation::relu ? 0 : x.u)) + routed_bytes(x, backward) / x.e;
  if (x.shares) return (x.n * (backward ? 3 : 2) * x.d + saved + weights) * x.e + (backward ? 8 * weights : 0);
  if (!backward) return (x.n * 3 * x.d + saved + weights) * x.e + output_norm_bytes(c, x, false);
  return (x.n * 2 * x.d + saved + weights) * x.e + 8 * weights + output_norm_bytes(c, x, true);
}

/// Of an operation's weights' half: what multiplies, and the fp32 gradients read and written.
double weights_half_bytes(const Extents& x, Operation operation) {
  switch (operation) {
    case Operation::mlp_backward_weights: return x.n * (2 * x.d * std::max(1.0, x.routed) + x.f + x.u) * x.e + 8 * x.mlp;
    case Operation::attention_backward_weights: return x.n * (2 * x.d + x.a + x.q) * x.e + 8 * x.d * (x.q + x.a);
    default: return x.n * x.v * 4 + x.n * x.w * x.e + 8 * x.v * x.w;
  }
}

/// Of an operation's inputs' half: as the whole without the fp32 gradients, and with what is kept for the other half. Where tokens are
/// shared only its rows are kept, and the inputs are not gathered.
double input_half_bytes(const Config& c, const Extents& x, Operation operation) {
  const double shared = x.r * x.d - x.n * x.d;
  switch (operation) {
    case Operation::mlp_backward_input:
      return mlp_bytes(c, x, true) - 8 * x.mlp + (x.n * x.u + (x.shares ? shared : pre_norm(c) ? x.n * x.d : 0)) * x.e;
    case Operation::attention_backward_input:
      return attention_bytes(c, x, true) - 8 * x.d * (x.q + x.a) + (x.n * x.q + (x.shares ? shared : x.n * x.d)) * x.e;
    default: return x.n * x.v * 8 + (x.n * x.w + x.v * x.w) * x.e;
  }
}

double head_bytes(const Config& c, const Extents& x, Operation operation) {
  const double word = x.v * x.w, projection = c.projects() ? x.d * x.w : 0;
  switch (operation) {
    case Operation::head_begin_forward: return (x.r * (x.d + (c.final_norm ? x.d : 0) + (c.projects() ? 2 : 1) * x.w) + projection) * x.e;
    case Operation::head_forward:
      if (x.shares) return (x.n * x.w + word) * x.e + x.n * x.v * 4;
      return (x.n * (x.d + (c.final_norm ? x.d : 0) + (c.projects() ? x.w : 0)) + word + projection) * x.e + x.n * x.v * 4;
    case Operation::head_loss: return x.n * 12;
    case Operation::head_backward: return x.n * x.v * 8 + (2 * x.n * x.w + word) * x.e + 8 * word;
    default: return (x.r * (x.w + 2 * x.d) + projection) * x.e + 8 * projection;
  }
}

/// Norms read a row and write one; the activation reads all columns of its product.
double again_bytes(const Config& c, const Extents& x) {
  const double norms = (pre_norm(c) ? 4 : 2) * x.r * x.d;
  return (norms + (c.activation == Activation::relu ? 0 : x.n * (x.u + x.f))) * x.e;
}

/// Rows of width d that an operation before a gathering reads and writes.
double rows_moved(const Config& c, Operation operation) {
  switch (operation) {
    case Operation::attention_begin_forward: return pre_norm(c) ? 4 : 2;  // input, kept and copied
    case Operation::mlp_begin_forward:
      return 6 + (c.output_norms ? 1 : 0);  // input, partial, middle; ff_input kept and copied
    // Gradient to partial, ff_input to gathered; the norm.
    case Operation::mlp_begin_backward: return (pre_norm(c) ? 4 : 6) + (c.output_norms ? 3 : 0);
    // Partial, middle, gradients; attention's input to gathered.
    case Operation::attention_begin_backward: return (pre_norm(c) ? 8 : 7) + (c.output_norms ? 3 : 0);
    case Operation::mlp_begin_weights:
    case Operation::attention_begin_weights: return 4;  // a gradient and an input, copied
    default: return 0;
  }
}

}  // namespace

double attention_pairs(const Config& c, const LayerShape& s) {
  const std::size_t kinds = std::max<std::size_t>(1, c.windows.size());
  double sum = 0;
  for (std::size_t kind = 0; kind < kinds && kind < static_cast<std::size_t>(c.blocks); ++kind) {
    const int first = static_cast<int>(kind), blocks = (c.blocks - 1 - first) / static_cast<int>(kinds) + 1;
    const double w = seen(c.window(first), s.length);
    sum += blocks * (w * (w + 1) / 2 + (s.length - w) * w);
  }
  return s.sequences * sum / c.blocks;
}

double flops(const Config& c, const LayerShape& s, Operation operation) {
  const Extents x{c, s};
  const double projection = c.projects() ? product(x.r, x.w, x.d) : 0;
  const double attention_linear = product(x.n, x.d, x.q) + product(x.n, x.a, x.d);
  const double mlp_linear = product(x.n, x.d, x.u) + product(x.n, x.f, x.d) + product(x.n, x.d, x.experts);
  const double attention_product = 2 * x.pairs * x.a;  // one of scores, values, or a gradient of either
  switch (operation) {
    case Operation::embedding_end_forward: return projection;
    case Operation::attention_forward: return attention_linear + 2 * attention_product;
    case Operation::mlp_forward: return mlp_linear;
    case Operation::head_begin_forward: return projection;
    case Operation::head_forward: return (x.shares ? 0 : projection) + product(x.n, x.w, x.v);
    case Operation::head_backward: return 2 * product(x.n, x.w, x.v);
    case Operation::head_end_backward: return 2 * projection;
    case Operation::mlp_backward: return 2 * mlp_linear;
    case Operation::attention_backward: return 2 * attention_linear + 5 * attention_product;  // scores once more, and four gradients
    case Operation::mlp_backward_input:
    case Operation::mlp_backward_weights: return mlp_linear;
    case Operation::attention_backward_input: return attention_linear + 5 * attention_product;
    case Operation::attention_backward_weights: return attention_linear;
    case Operation::head_backward_input:
    case Operation::head_backward_weights: return product(x.n, x.w, x.v);
    case Operation::embedding_begin_backward: return 2 * projection;
    case Operation::embedding_backward: return x.shares ? 0 : 2 * projection;
    default: return 0;
  }
}

Bytes traffic(const Config& c, const LayerShape& s, Operation operation) {
  const Extents x{c, s};
  double bytes = 0;
  switch (operation) {
    case Operation::embedding_forward:
    case Operation::embedding_end_forward:
    case Operation::embedding_begin_backward:
    case Operation::embedding_backward: bytes = embedding_bytes(c, x, operation); break;
    case Operation::attention_forward: bytes = attention_bytes(c, x, false); break;
    case Operation::attention_backward: bytes = attention_bytes(c, x, true); break;
    case Operation::mlp_forward: bytes = mlp_bytes(c, x, false); break;
    case Operation::mlp_backward: bytes = mlp_bytes(c, x, true); break;
    case Operation::mlp_backward_input:
    case Operation::attention_backward_input:
    case Operation::head_backward_input: bytes = input_half_bytes(c, x, operation); break;
    case Operation::mlp_backward_weights:
    case Operation::attention_backward_weights:
    case Operation::head_backward_weights: bytes = weights_half_bytes(x, operation); break;
    case Operation::block_end_forward: bytes = x.r * x.d * x.e * (pre_norm(c) ? 3 : 4) + output_norm_bytes(c, x, false); break;
    case Operation::block_begin_backward: bytes = x.r * x.d * x.e * (pre_norm(c) ? 4 : 3); break;
    case Operation::block_again: bytes = again_bytes(c, x); break;
    case Operation::attention_begin_forward:
    case Operation::mlp_begin_forward:
    case Operation::mlp_begin_backward:
    case Operation::attention_begin_backward:
    case Operation::mlp_begin_weights:
    case Operation::attention_begin_weights: bytes = rows_moved(c, operation) * x.r * x.d * x.e; break;
    default: bytes = head_bytes(c, x, operation); break;
  }
  return {static_cast<std::int64_t>(bytes)};
}

double summed_weights(const Config& c, const LayerShape& s, Operation operation) {
  if (!makes_weights_gradients(operation)) return 0;
  const Extents x{c, s};
  switch (whole_of(operation).value_or(operation)) {
    case Operation::attention_backward: return x.d * (x.q + x.a);
    case Operation::mlp_backward: return x.mlp;
    case Operation::head_backward: return x.v * x.w;
    default: return 0;
  }
}

double training_flops_per_token(const Config& c, int length) {
  const double d = c.hidden, w = c.embedding_width, a = static_cast<double>(c.attention_width()), keys = 2.0 * c.groups() * c.head_size();
  const double through = mean(c, columns_through(c, {}, true), c.feed_forward);
  const double feed_forward = (c.gated() ? 3 : 2) * through + mean(c, c.experts.count, 0);
  const double block = d * (2 * a + keys) + d * feed_forward;
  const double attended = c.blocks * attention_pairs(c, {1, length}) / length;  // keys of a token, summed over the blocks
  return 6 * (c.blocks * block + w * c.vocabulary + (c.projects() ? 2 * d * w : 0)) + 12 * a * attended;
}

}  // namespace flotilla::model
