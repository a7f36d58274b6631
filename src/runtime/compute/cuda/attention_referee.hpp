#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernels/values.hpp"

/// What cuDNN's attention is judged by: data on which a wrong mask, place or factor shows, and bounds of what rounding may do.
namespace flotilla::compute::cuda {

/// Operands on the host, in the layouts of attention's kernels.
template <class E>
struct KnownAttention {
  std::vector<E> qkv, output_gradient;
};

/// A query looks at the last keys that it may see at both ends of its window, and as much at the first that it may not: a mask that is off
/// by one moves an output by tenths. Values and gradients of outputs lie around 1, so that sums of products with probabilities cannot
/// cancel.
template <class E>
KnownAttention<E> known_attention(const AttentionShape&, int sequences);

/// Results of one implementation.
template <class E>
struct AttentionResults {
  std::vector<E> output, qkv_gradient;
  std::vector<float> log_sum_exp;
};

/// Empty, or the first place where `theirs` lies outside of the bounds around `ours`. With u, the elements' unit of rounding: outputs may
/// differ by 6 u of themselves, as probabilities and outputs are rounded once by each; gradients of values by 8 u of themselves and u of
/// the largest, as those of heads may be rounded before they are added; gradients of queries and keys, whose summands cancel, by 16 u of
/// the largest; log_sum_exp, which is fp32, by 2^-10 of 1 and itself.
template <class E>
std::string difference(const AttentionShape&, int sequences, const AttentionResults<E>& ours, const AttentionResults<E>& theirs);

}  // namespace flotilla::compute::cuda
