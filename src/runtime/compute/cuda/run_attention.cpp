// Whose attention runs: cuDNN's for shapes that it was proved for, else our own kernels'.
#include "cpu/attention_blocks.hpp"
#include "flotilla/base/log.hpp"
#include "operations.hpp"

namespace flotilla::compute::cuda {

bool may_use_cudnn(const Setup& s) {
  return s.device.kind == cluster::DeviceKind::gpu && s.device.attention != AttentionKernel::flotilla && s.precision != Precision::fp32 &&
         s.cache == 0 && !s.documents && s.model.attention_dropout == 0 && !s.model.alibi && s.model.score_cap == 0 &&
         s.model.head_size() % 8 == 0;
}

Bytes cudnn_workspace(const Setup& s, int sequences) {
  if (s.device.attention != AttentionKernel::cudnn || !may_use_cudnn(s)) return {};
  const model::LayerShape shape{1, s.length, s.tensor_parallel, s.tensor_index, s.precision};
  cudnn::AttentionProblem problem{.precision = s.precision, .length = s.length, .size = s.model.head_size()};
  problem.heads = model::local_heads(s.model, shape);
  problem.groups = s.model.shares_keys() ? 1 : problem.heads;
  problem.batch = s.model.shares_keys() ? 1 : sequences;
  problem.deterministic = s.device.deterministic;
  return cudnn::attention_workspace(problem);
}

template <class E>
void CudaOperations<E>::run_own_attention(const AttentionShape& shape, int sequences, const AttentionBatch<E>& b, const E* keys_and_values,
                                          const KernelDropout& drop) {
  (*attention_.forward)(stream_, attention_.launch(setup_.length, heads_, sequences, true), b.output, b.log_sum_exp, b.qkv, keys_and_values,
                        b.starts, shape, drop);
}

template <class E>
void CudaOperations<E>::run_own_attention_backward(const AttentionShape& shape, int sequences, const AttentionBatch<E>& b,
                                                   const KernelDropout& drop) {
  const auto launch = [&](std::int64_t heads) { return attention_.launch(setup_.length, heads, sequences, false); };
  (*attention_.queries)(stream_, launch(heads_), b.qkv_gradient, b.dots, b.qkv, b.output, b.output_gradient, b.log_sum_exp, b.starts, shape,
                        drop);
  (*attention_.keys)(stream_, launch(groups_), b.qkv_gradient, b.dots, b.qkv, b.output_gradient, b.log_sum_exp, b.starts, shape, drop);
}

template <class E>
void CudaOperations<E>::run_attention(const AttentionShape& shape, int sequences, const AttentionBatch<E>& b, const E* keys_and_values,
                                      const KernelDropout& drop) {
  if (library_ && b.qkv == keys_and_values && !drop.on && library_->forward(shape, sequences, b)) return;
  run_own_attention(shape, sequences, b, keys_and_values, drop);
}

template <class E>
void CudaOperations<E>::run_attention_backward(const AttentionShape& shape, int sequences, const AttentionBatch<E>& b,
                                               const KernelDropout& drop) {
  if (library_ && !drop.on && library_->backward(shape, sequences, b)) return;
  run_own_attention_backward(shape, sequences, b, drop);
}

/// Why cuDNN's attention is not to run; empty: it is, for each window of the model.
template <class E>
std::string CudaOperations<E>::prove_attention(int sequences) {
  try {
    library_ = std::make_unique<LibraryAttention<E>>(device_, stream_, setup_.device.deterministic);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    return error.what();
  }
  library_->set_workspace(all_scratch_.first(all_scratch_.size() - scratch_.size()));
  for (const int window : cpu::attention_windows(setup_)) {
    const AttentionShape shape = attention_shape(window);
    const AttentionKernelRuns<E> ours{[&](const AttentionBatch<E>& b) { run_own_attention(shape, sequences, b, b.qkv, {}); },
                                      [&](const AttentionBatch<E>& b) { run_own_attention_backward(shape, sequences, b, {}); }};
    const bool timed = setup_.device.attention == AttentionKernel::automatic;
    if (auto why = library_->prove(shape, sequences, ours, scratch_, timed); !why.empty()) return text(cudnn::library_version(), ": ", why);
  }
  return {};
}

template <class E>
void CudaOperations<E>::prepare(int sequences) {
  library_.reset();
  attention_library_.clear();
  if (!may_use_cudnn(setup_)) return;
  const auto workspace = static_cast<std::size_t>(std::max(product_workspace, cudnn_workspace(setup_, sequences)).count);
  FLOTILLA_REQUIRE(all_scratch_.size() >= workspace, ErrorKind::internal, "a scratchpad of ", all_scratch_.size(), " bytes is too small");
  scratch_ = all_scratch_.subspan(workspace);
  const std::string missing = cudnn::why_none();
  if (!missing.empty() && setup_.device.attention == AttentionKernel::automatic) return;
  const gpu::DeviceFacts& device = device_.facts();
  std::string why = !missing.empty() ? missing : device.major < 8 ? "cuDNN's attention needs sm_80 or later" : prove_attention(sequences);
  if (why.empty()) {
    attention_library_ = cudnn::library_version();
    return;
  }
  library_.reset();
  log::warning("attention by our own kernels on GPU ", device.ordinal, " (", device.name, "): ", why);
}

#define FLOTILLA_INSTANTIATE(E)                                                                                                         \
  template void CudaOperations<E>::run_attention(const AttentionShape&, int, const AttentionBatch<E>&, const E*, const KernelDropout&); \
  template void CudaOperations<E>::run_attention_backward(const AttentionShape&, int, const AttentionBatch<E>&, const KernelDropout&);  \
  template void CudaOperations<E>::prepare(int);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cuda
