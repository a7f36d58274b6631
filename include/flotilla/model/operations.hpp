#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::model {

/// The arithmetic a layer is made of, cut where tensor parallelism must communicate. N = tokens of the microbatch, d = hidden,
/// w = embedding_width, e = element type of the precision. `partial` is what an all-reduce over the tensor-parallel group makes whole.
/// b1, b2: out.bias, down.bias; drop = dropout. What a model lacks (a bias, a position table, a dropout) is left out. The token embedding
/// of the head is its own where it is not tied.
///
///   embedding_forward   tokens -> partial (N, w): rows of the token embedding that this rank holds, zero elsewhere
///   embedding_end_forward   partial -> output (N, d): drop(norm(project_in(partial)) + position); keeps partial in `saved` if it projects
///                       or norms
///   attention_forward   input (N, d) -> partial (N, d): norm1 (pre), qkv, norms of its heads, rotation, causal attention, out without b1
///   mlp_forward         input, partial -> partial: middle = input + drop(partial + b1), where norm3(partial + b1) is dropped with
///                       output_norms; ff_in = norm2(middle) (pre) or
///                       norm1(middle) (post) or norm2(input) (parallel residual); up, activation, down without b2
///   block_end_forward   partial -> output (N, d): middle + drop(partial + b2) (pre), with norm4 as above; norm2(ff_in + drop(partial +
///   b2)) (post) head_forward        input (N, d) -> logits (N, local vocabulary) fp32, stats (N, 3) fp32: final norm, project_out, token
///   embedding^T;
///                       a row of stats is (maximum, sum of exp(logit - maximum), logit of the target or -inf if it is not ours)
///   head_loss           gathered_stats (tp, N, 3) -> scalars[0] += sum over tokens of -log p(target) in fp64
///   head_backward       logits, gathered_stats -> partial (N, w): logits become d logits in place, times loss_scale; d word; d input of it
///   head_end_backward   partial -> gradient (N, d): back through project_out and final norm
///   mlp_backward        gradient (N, d) -> partial: back through block_end and mlp; `gradient` keeps the residual path's part
///   attention_backward  gradient, partial -> partial: back through the norm before the mlp (adds to gradient), then attention; with a
///                       parallel residual attention's branch gets the gradient as it was before
///   block_begin_backward  gradient, partial -> gradient: back through norm1 (pre), adds the residual path
///   embedding_backward  gradient -> d word, d position, d project_in; uses gradient up
/// input, output, partial, gradient hold elements e; bf16's sums stay fp32 inside an operation.
///
/// Three of them exist in two halves as well, for schedules that send an input's gradient on before weights have theirs (Qi et al. 2023,
/// https://arxiv.org/abs/2401.10241). Both together do what the whole does, to the same bits:
///   X_backward_input    what X_backward does but for the gradients of its products' weights (and of qkv's bias). What those need is left
///                       in `kept` and over parts of `saved` that nobody reads any more (kept_layout)
///   X_backward_weights  d weights of the products from saved and kept (post-norm attention: input; head: logits) and, of attention, d
///                       qkv.bias
///
/// Where a block drops what is cheap to compute again (BlockLayout::total is less by BlockLayout::again):
///   block_again         input, saved -> what was dropped, to the bit as it was: both norms' outputs and the activation
///
/// With a cache of keys and values (LayerShape::cache) attention_forward puts those of its tokens behind those of the tokens before, and
/// attends to all of them; positions go on from there. Only in forward passes.
///
/// Sequence parallelism (Korthikanti et al. 2022, https://arxiv.org/abs/2205.05198): between the products of a tensor-parallel group member
/// i holds tokens share(N, tp, i). input, output and gradient have these rows alone; `partial` is gathered before an operation with
/// products and reduced to them after it, each member's rows at their place in (N, d). What the operations above do to rows stands before
/// the gathering, in operations of their own:
///   attention_begin_forward   input -> partial: norm1 (pre) or the input; then attention_forward: partial -> partial
///   mlp_begin_forward         input, partial -> partial: middle and ff_in; then mlp_forward: partial -> partial
///   head_begin_forward        input -> gathered (N, w): final norm, project_out; then head_forward and head_backward read `gathered`
///   mlp_begin_backward        gradient -> gradient, partial: back through block_end; ff_in -> gathered; then mlp_backward
///   attention_begin_backward  gradient, partial -> gradient, partial: back through the norm before the mlp; the input of qkv -> gathered;
///                             then attention_backward
///   embedding_begin_backward  gradient -> partial (N, w): d position, d project_in; then embedding_backward: d word
/// In two halves the inputs' half keeps its rows of what it would keep, and gathers no inputs: X_begin_backward gets no `gathered`. The
/// weights' half gathers both again:
///   mlp_begin_weights         kept, ff_in -> partial, gathered; then mlp_backward_weights
///   attention_begin_weights   kept, the input of qkv -> partial, gathered; then attention_backward_weights
/// Gradients of norms, positions, projections and of the biases after the second products are then those of the member's tokens.
enum class Operation : std::uint8_t {
  embedding_forward,
  embedding_end_forward,
  attention_forward,
  mlp_forward,
  block_end_forward,
  head_forward,
  head_loss,
  head_backward,
  head_end_backward,
  mlp_backward,
  attention_backward,
  block_begin_backward,
  embedding_backward,
  block_again,
  attention_begin_forward,
  mlp_begin_forward,
  head_begin_forward,
  mlp_begin_backward,
  attention_begin_backward,
  embedding_begin_backward,
  mlp_begin_weights,
  attention_begin_weights,
  mlp_backward_input,
  mlp_backward_weights,
  attention_backward_input,
  attention_backward_weights,
  head_backward_input,
  head_backward_weights,
};
/// Those of every training step, up to embedding_backward: probes measure them, and halves. Those that move rows through memory, as
/// block_end_forward does, are estimated by it; halves that nobody measured are parts of what they are halves of.
inline constexpr int operation_count = 13;
inline constexpr int all_operation_count = 28;

/// The operation that a half is of; nothing for a whole one.
std::optional<Operation> whole_of(Operation);
/// The half of a whole operation that makes its input's gradient; nothing where it has none.
std::optional<Operation> input_half_of(Operation);
/// Whether it is a whole operation that has halves, or the half that makes its weights' gradients.
bool makes_weights_gradients(Operation);

std::string_view to_string(Operation);
/// Throws Error{bad_input}.
Operation parse_operation(std::string_view);

/// The piece of a layer that one rank computes for one microbatch.
struct LayerShape {
  int sequences = 1;  ///< sequences in the microbatch
  int length = 1;     ///< tokens in a sequence
  int tensor_parallel = 1;
  int tensor_index = 0;
  Precision precision = Precision::fp32;
  bool sequence_parallel = false;  ///< members hold their tokens alone between products
  int cache =
      0;  ///< attention's keys and values are kept for so many tokens of a sequence (cache_size); 0: they are those of the microbatch
  int expert_parallel = 1;  ///< of every block's experts this rank holds one part of so many, and computes as many tokens as the others

  bool operator==(const LayerShape&) const = default;
  std::int64_t tokens() const { return std::int64_t{sequences} * length; }
  /// Rows that a member holds between products, at most: all, or its part of them rounded up.
  std::int64_t rows() const { return sequence_parallel ? (tokens() + tensor_parallel - 1) / tensor_parallel : tokens(); }
};

/// Multiply-adds counted twice, matrix products only, on this rank; of experts those that a token goes through. Attention counts the causal
/// half that is needed; its backward pass counts the scores again. Halves of an operation sum to it. Where blocks see different windows, or
/// some have experts, an operation of a block counts the mean over the blocks, so that layers cost alike.
double flops(const Config&, const LayerShape&, Operation);

/// (query, key) pairs that a head's masks leave in the microbatch: L (L + 1) / 2 a sequence of L tokens, W (W + 1) / 2 + (L - W) W in a
/// window of W < L; the mean over the blocks.
double attention_pairs(const Config&, const LayerShape&);

/// Least bytes that the operation must move between memory and core: operands, results, weights, once each; tokens that go through experts
/// are ordered by expert, and back.
Bytes traffic(const Config&, const LayerShape&, Operation);

/// Elements of the weights on this rank whose gradients the operation makes; experts' are those of all that are here. `traffic` counts 8
/// bytes for each: a sum in fp32, read and written.
double summed_weights(const Config&, const LayerShape&, Operation);

/// FLOPs of one token's forward and backward pass over the whole model at sequence length `length`, recomputation and experts that the
/// token does not go through not counted; what MFU counts. As in Chowdhery et al. 2022, appendix B, but for attention, of which the causal
/// half is counted that is computed (attention_pairs), so that no device can exceed its peak; scores count once.
double training_flops_per_token(const Config&, int length);

/// A part of a buffer. Offsets are multiples of 64 bytes.
struct Segment {
  Bytes offset, size;
  bool again = false;  ///< it is dropped and computed again: an offset in the buffer of dropped parts
};

/// What a block keeps from forward to backward, for one microbatch. Sizes of absent parts are 0. H' heads, f' columns are the local ones;
/// (R, ...) has LayerShape::rows() of the N tokens.
struct BlockLayout {
  Segment norm1_stats;             ///< (R, 2) fp32: mean, reciprocal standard deviation of the block's first norm to run
  Segment attention_input;         ///< (R, d) e: norm1(input); pre-norm only (post-norm reads the input itself)
  Segment raw_heads;               ///< (N, raw_width) e: queries and keys before their norms
  Segment qkv;                     ///< (N, qkv_width) e; normed and rotated
  Segment log_sum_exp;             ///< (sequences, H', length) fp32
  Segment attention_output;        ///< (N, H' head_size) e
  Segment raw_attention;           ///< (R, d) e: attention + bias before its own norm; only with output_norms
  Segment raw_attention_stats;     ///< (R, 2) fp32; likewise
  Segment middle;                  ///< (R, d) e: input + drop(attention + bias)
  Segment norm2_stats;             ///< (R, 2) fp32
  Segment ff_input;                ///< (R, d) e: the norm of `middle`
  Segment router;                  ///< (R, E) fp32: probabilities of the experts; only with them
  Segment routed;                  ///< (2, R, k, d) e: tokens in the order of their k experts, before and behind these; likewise
  Segment up;                      ///< (N, up_width) e: before the activation; not with relu
  Segment activated;               ///< (N, f') e
  Segment raw_feed_forward;        ///< (R, d) e: as raw_attention, of the feed-forward
  Segment raw_feed_forward_stats;  ///< (R, 2) fp32
  Segment end;                     ///< (R, d) e: the sum before the last norm; post-norm only
  Bytes total;                     ///< kept
  Bytes again;                     ///< dropped and computed again (Segment::again)
};
/// `drops`: what costs no product is dropped: attention_input, ff_input, and activated unless it is ReLU's, which is kept as its own mask.
BlockLayout block_layout(const Config&, const LayerShape&, bool drops = false);

/// Gradients that a block's backward pass keeps from its inputs' half to its weights' half, for one microbatch. The others overwrite what
/// is no longer needed of BlockLayout: the gradient of `up` stands in `up` (but with relu), of qkv in `qkv`, of attention's output product
/// in `middle`, of the feed-forward's output product in `end` (post-norm).
struct KeptLayout {
  Segment output_gradient;  ///< (R, d) e: of the feed-forward's output product; pre-norm only
  Segment up_gradient;      ///< (N, up_width) e; with relu only
  Bytes total;
};
KeptLayout kept_layout(const Config&, const LayerShape&);

/// What the head keeps between its operations: the normed and projected input, of R rows.
struct HeadLayout {
  Segment norm_stats;  ///< (R, 2) fp32; only with a final norm
  Segment normed;      ///< (R, d) e; only with a final norm
  Segment projected;   ///< (R, w) e; only where it projects
  Bytes total;
};
HeadLayout head_layout(const Config&, const LayerShape&);

/// What the embedding keeps from forward to backward, of R rows.
struct EmbeddingLayout {
  Segment words;       ///< (R, w) e: what is projected or normed; only where it is
  Segment norm_stats;  ///< (R, 2) fp32; only with a norm
  Bytes total;
};
EmbeddingLayout embedding_layout(const Config&, const LayerShape&);

/// Local heads, heads of keys and values, columns and rows of a token embedding.
int local_heads(const Config&, const LayerShape&);
int local_groups(const Config&, const LayerShape&);
/// Columns are those that a token goes through in a block: with experts, of as many as it goes through and of the shared ones; where blocks
/// differ, the most.
int local_columns(const Config&, const LayerShape&);
int columns_through(const Config&, const LayerShape&, bool experts);  ///< of blocks with experts, or of dense ones
int local_vocabulary(const Config&, const LayerShape&);

/// Columns of qkv on this rank: (heads + 2 heads of keys and values) * head_size. A row is all queries, all keys, all values; where
/// they are grouped (Config::grouped_qkv), group after group: its queries, its key, its value.
std::int64_t qkv_width(const Config&, const LayerShape&);
/// Columns of BlockLayout::raw_heads: heads of queries and of keys in qkv's order, values left out. 0 where they have no norms.
std::int64_t raw_width(const Config&, const LayerShape&);
/// What a block keeps of the tokens before, where LayerShape::cache > 0: (sequences, cache, 2 local groups, head_size) e, a token's keys
/// and then its values, rotated. A GPU has them group after group where qkv is grouped.
Bytes cache_size(const Config&, const LayerShape&);
/// Columns of the feed-forward's first product: those of `activated`, twice with SwiGLU and GeGLU (the gates before the others).
std::int64_t up_width(const Config&, const LayerShape&);

/// Row pitch of the logits buffer in elements of fp32: local vocabulary rounded up to 16.
std::int64_t logits_pitch(const Config&, const LayerShape&);

/// Queries that attention takes at a time against the keys up to its causal limit; sizes the workspace.
inline constexpr int attention_block = 128;
/// Row pitch of their scores in elements of fp32: not a power of two, so that rows do not fall on the same cache sets.
constexpr std::int64_t attention_pitch(int length) { return (length + 15) / 16 * 16 + 16; }

/// Temporaries inside one operation, for `threads` compute threads: what a runtime that follows `Operation` needs at most, in one
/// buffer reused by every operation. Ours uses exactly this; libraries' scratchpads are counted apart.
Bytes workspace(const Config&, const LayerShape&, Operation, int threads);

}  // namespace flotilla::model
