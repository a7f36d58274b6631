#include "kernels_of_run.hpp"

#include <string>

namespace flotilla::published {
namespace {

/// Attention that is not one kernel, from the kernels: scores are written, read and written by the softmax, and read; on the way back their
/// gradient is written, read with them and written, and read twice, and they once more. Dropout reads and writes them with a mask. XLA's
/// softmax reads them once more for the largest of a row and once more for its sum of exponentials.
void store_scores(program::LayerKernels& kernels, bool with_dropout, bool compiled) {
  constexpr double forward = 4, backward = 7.5, dropout = 2.5, reductions = 2;
  const double more = (with_dropout ? dropout : 0) + (compiled ? reductions : 0);
  kernels.score_passes_forward = forward + more;
  kernels.score_passes_backward = backward + more;
}

/// Megatron-LM 1.1.5 fuses scaling, mask and softmax, bias and GELU, bias and dropout only where its options say so. By itself the mask
/// reads and writes the scores once more in a pass; element-wise steps move twice the bytes, as PyTorch's eager ones do under DeepSpeed.
void leave_unfused(program::LayerKernels& kernels) {
  constexpr double mask_passes = 2, eager_traffic = 2;
  kernels.score_passes_forward += mask_passes;
  kernels.score_passes_backward += mask_passes;
  kernels.traffic = eager_traffic;
  kernels.fused_scores = 0;
}

/// torch.compile leaves as much element-wise traffic as the other compiler's kernels (XLA's, program::runtime_named "jax") move.
void compile(program::LayerKernels& kernels) {
  constexpr double compiled_traffic = 1.5;
  kernels.fused = true;
  kernels.traffic = compiled_traffic;
}

/// The device's host starts kernels, its newer instructions are theirs or not, and exponentials hold their attention up or not.
void run_on(program::LayerKernels& kernels, const cluster::CatalogueEntry& device) {
  if (device.host_speed.known()) kernels.host = kernels.host / device.host_speed.value;
  const cluster::Figure& share = kernels.portable_attention ? device.portable_share : device.exponential_share;
  if (share.known()) kernels.attention_share *= share.value;
}

}  // namespace

void set_kernels(program::LayerKernels& kernels, const Run& run, bool without_dropout, const cluster::CatalogueEntry& device) {
  const std::string& attention = run.parallel.attention;
  if (attention == "flash") kernels.score_passes_forward = kernels.score_passes_backward = 0;
  if (attention == "unfused" || attention == "compiled") store_scores(kernels, !without_dropout, attention == "compiled");
  if (run.unfused) leave_unfused(kernels);
  if (run.parallel.compiled) compile(kernels);
  kernels.keeps_other_products = run.runtime.starts_with("torchtitan");
  run_on(kernels, device);
}

}  // namespace flotilla::published
