#pragma once
#include <cstdint>

#include "flotilla/compute/token_score.hpp"

/// The loops over rows that are ours: everything but matrix products. Serial; callers deal rows to threads. Compiled once for each
/// instruction set (kernels_*.cpp) and chosen at run time; all arithmetic is fp32, whatever the element type.
namespace flotilla::compute::cpu {

/// Storage only; the kernels widen it to fp32 and round to nearest even.
struct bfloat16 {
  std::uint16_t bits;
};
/// Likewise (flotilla/base/half.hpp).
struct float16 {
  std::uint16_t bits;
};

/// Half-open.
struct Rows {
  std::int64_t first = 0, last = 0;
  std::int64_t count() const { return last - first; }
};

/// One dropout site in one step. Element (sequence, head, row, column) is dropped where word (column / 16) % 4 of
/// Philox{key}(column / 64 * 16 + column % 16 | row << 32, sequence | head << 32) is below `threshold`.
struct Dropout {
  std::uint32_t key0 = 0, key1 = 0;
  std::uint32_t threshold = 0;  ///< probability * 2^32
  float scale = 1;              ///< 1 / (1 - probability)
  bool on = false;
};

/// Which (sequence, position) a row of a matrix of tokens is; `first_row`: of the microbatch's tokens, the one that row 0 is.
struct RowPlace {
  std::int64_t length = 1, first_sequence = 0, first_row = 0;
};

/// sum = residual + drop(partial + bias). Without `residual` or `bias` it counts as zero. `partial` may be `sum`.
template <class E>
struct AddResidual {
  const E *residual, *partial, *bias;
  std::int64_t bias_stride;  ///< from one position's bias to the next: 0, or the width (position table)
  E* sum;
  std::int64_t width;
  Dropout dropout;
  RowPlace place;
  const std::int32_t* starts = nullptr;  ///< by token of the microbatch, where its position 0 is; null: at its sequence's begin
};

/// y = (x - mean) * rstd * weight + bias; stats (rows, 2) get mean and rstd. Without `bias` it is the root mean square's norm: mean and
/// bias are zero, and `offset` is added to the weight.
template <class E>
struct NormForward {
  const E *x, *weight, *bias;
  E* y;
  float* stats;
  std::int64_t width;
  float epsilon;
  float offset = 0;
};

/// With g = gradient (+ added): out = (residual +) d x, and sums (2, width) += g * normalized x, g; `rms`: sums (width) += the first alone.
template <class E>
struct NormBackward {
  const E *gradient, *added, *x, *weight, *residual;
  const float* stats;
  E* out;
  float* sums;
  std::int64_t width;
  bool rms = false;
  float offset = 0;
};

/// Norms of heads, of kind rms. A row holds `bands` bands, `band` elements apart: of each, `queries` heads and then `keys` heads of `size`
/// columns. `raw` (rows, bands * (queries + keys) * size) gets them as they were, and they are normed in place.
template <class E>
struct HeadNorms {
  E *rows, *raw;
  const E *query_weight, *key_weight;
  std::int64_t pitch, band, bands, queries, keys, size;
  float epsilon;
  float offset = 0;  ///< added to the weights
};

/// Of HeadNorms::rows the gradient of what was normed becomes that of `raw`. sums (2, size) += gradients of both weights.
template <class E>
struct HeadNormsBackward {
  HeadNorms<E> norms;
  float* sums;
};

/// masked = drop's backward of gradient; sums (width), where there are any, += masked. `masked` may be `gradient`.
template <class E>
struct DropBackward {
  const E* gradient;
  E* masked;
  float* sums;
  std::int64_t width;
  Dropout dropout;
  RowPlace place;
};

/// gradient *= activation'(saved) in place; sums (width), where there are any, += gradient. `saved` is the input of GELU, the output of
/// ReLU.
template <class E>
struct ActivationBackward {
  const E* saved;
  E* gradient;
  float* sums;
  std::int64_t width;
};

/// A row holds `columns` gates and then as many others: y = activation(gate) * other. Pitches: 2 columns; columns in y.
template <class E>
struct GatedForward {
  const E* saved;
  E* y;
  std::int64_t columns;
};

/// The first half of a row of `gradient` is that of y; the row becomes the gradients of gates and others. sums (2 columns), where there are
/// any, += them.
template <class E>
struct GatedBackward {
  const E* saved;
  E* gradient;
  float* sums;
  std::int64_t columns;
};

/// Turns column i < size / 2 of a head with column i + size / 2 by the angle of (position, i); `back`: by its negative. Of a row, `heads`
/// heads start at column first, first + step, ...; positions follow rows, `length` of them.
template <class E>
struct Rotation {
  E* rows;
  std::int64_t pitch, first, step, heads, size, length;
  const float* angles;  ///< (length, size): cosines of a position, then sines
  bool back;
  const std::int32_t* starts = nullptr;  ///< as in AddResidual
};

/// Queries [first_query, first_query + rows) of one head against keys [first_key, first_key + keys), of which the last may be behind all
/// queries. With a window, a query sees as many keys, itself the last; 0: all.
struct AttentionBlock {
  float* scores;  ///< (rows, pitch) fp32; becomes probabilities in the element type, at the start of each row
  std::int64_t pitch, rows, first_query, first_key, keys, window;  ///< first_key: a multiple of 64, as dropout's numbers are dealt
  float scale, slope;                                              ///< slope: of a head whose scores get slope * (key - query); 0: none
  float* log_sum_exp;                                              ///< of these rows
  Dropout dropout;
  std::uint32_t sequence, head;          ///< global
  const std::int32_t* starts = nullptr;  ///< the first key of each row's document, ascending; null: 0
  float cap = 0;                         ///< scores become cap * tanh(score / cap); 0: they stay. Not where heads have slopes
};

template <class E>
struct AttentionBackwardBlock {
  AttentionBlock block;               ///< scores become dropped probabilities
  float* gradients;                   ///< (rows, pitch) fp32: of the dropped probabilities; become those of the scores, in the element type
  const E *output, *output_gradient;  ///< (rows, head_size), pitch `output_pitch`
  std::int64_t output_pitch, head_size;
};

/// Softmax over logits that are cut over `members` ranks.
struct HeadRows {
  float* logits;
  std::int64_t pitch, width;
  const std::int32_t* tokens;        ///< (sequences, length + 1); the target of (s, i) is token i + 1; ~token: it does not count
  std::int64_t length, first_token;  ///< first_token: vocabulary row of column 0
  float* stats;                      ///< (N, 3); a target above the maximum does not count
  const float* gathered;             ///< (members, N, 3)
  std::int64_t members, row_count;
  float loss_scale;
  float cap = 0;  ///< head_stats turns logits into cap * tanh(logit / cap) first; 0: it does not
};

/// Of rows whose targets count.
struct RowLossSum {
  double loss;
  std::int64_t counted;
};

struct AdamWRange {
  float *parameters, *moment1, *moment2;
  const float* gradients;
  float step_size, beta1, beta2, epsilon, decay, gradient_factor, second_correction;  ///< decay: learning rate x weight decay, or 0
};

template <class E>
struct Kernels {
  void (*add_residual)(AddResidual<E>, Rows);
  void (*norm_forward)(NormForward<E>, Rows);
  void (*norm_backward)(NormBackward<E>, Rows);
  void (*head_norms)(HeadNorms<E>, Rows);
  void (*head_norms_backward)(HeadNormsBackward<E>, Rows);
  void (*drop_backward)(DropBackward<E>, Rows);
  void (*gelu)(const E* x, E* y, std::int64_t count);
  void (*gelu_backward)(ActivationBackward<E>, Rows);
  void (*gelu_exact)(const E* x, E* y, std::int64_t count);  ///< by the normal distribution function, not by tanh
  void (*gelu_exact_backward)(ActivationBackward<E>, Rows);
  void (*relu_backward)(ActivationBackward<E>, Rows);
  void (*swiglu)(GatedForward<E>, Rows);
  void (*swiglu_backward)(GatedBackward<E>, Rows);
  void (*geglu)(GatedForward<E>, Rows);  ///< the gate's activation is GELU's tanh form
  void (*geglu_backward)(GatedBackward<E>, Rows);
  void (*rotate)(Rotation<E>, Rows);
  void (*add)(const E* a, const E* b, E* sum, std::int64_t count);
  void (*add_to_floats)(const E* x, float factor, float* sum, std::int64_t count);  ///< sum += factor * x
  void (*multiply)(const E* x, float factor, E* y, std::int64_t count);
  void (*softmax)(AttentionBlock);
  void (*softmax_backward)(AttentionBackwardBlock<E>);
  void (*narrow)(const float* x, E* y, std::int64_t count);
  void (*widen)(const E* x, float* y, std::int64_t count);
  void (*head_stats)(HeadRows, Rows);
  void (*head_gradient)(HeadRows, Rows);  ///< logits become d logits in the element type, at the start of each row
  RowLossSum (*head_loss)(HeadRows, Rows);
  void (*head_scores)(HeadRows, TokenScore*, Rows);  ///< of the rows' targets, by row
  void (*adamw)(AdamWRange, E* weights, std::int64_t count);
  double (*squared_sum)(const float* x, std::int64_t count);
  void (*column_sums)(const E* x, float* sums, std::int64_t width, Rows);
};

/// The best set that this processor can run.
template <class E>
const Kernels<E>& kernels();
/// "avx512", "avx2" or "baseline".
const char* kernel_set();

}  // namespace flotilla::compute::cpu
