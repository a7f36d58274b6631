#include "memory_of_run.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::published {
namespace {

constexpr Bytes mebibytes(std::int64_t count) { return {count << 20}; }

/// Of a logit beside its copy in fp32, in the forward pass of Megatron-Core's fused cross entropy: as it came, less the largest, and its
/// exponential, both in fp32. Functions that the compiler fuses do not write in place, as those of the plain one do.
constexpr Bytes fused_loss_logit{10};

/// Of a logit where one kernel each way makes the loss: it stays as it came, and so is its gradient.
constexpr Bytes one_kernel_logit{2};

/// Workspaces of matrix products. PyTorch gives each thread that starts products one: that of the forward passes, and that of the backward
/// passes. Transformer Engine has one of its own.
constexpr int threads = 2;
constexpr Bytes recommended = mebibytes(4);              // by cuBLAS, on NVIDIA's types before Hopper
constexpr Bytes of_thread{std::int64_t{8519680}};        // PyTorch's, on the same (CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8)
constexpr Bytes of_thread_repeating = mebibytes(8 * 4);  // that makes results repeat (CUBLAS_WORKSPACE_CONFIG=:4096:8)

/// Beyond those of a type before Hopper whose results need not repeat, which the runtime's description has.
Bytes more_workspaces(const Run& run, const cluster::CatalogueEntry& device) {
  const Bytes library = device.matrix_workspace.known() ? Bytes{static_cast<std::int64_t>(device.matrix_workspace.value)} : recommended;
  const Bytes thread = run.deterministic ? of_thread_repeating : std::max(of_thread, library);
  return threads * (thread - of_thread) + (library - recommended);
}

/// Megatron-LM of 2021, which sums gradients in fp16: its optimizer's copies in fp32 outlive the step, for it clears the model's gradients
/// alone, and one buffer takes all gradients for their sum.
constexpr program::LayerRuntime::PerParameter gradients_in_fp16{{2}, {4}, {16}, {0}};

/// PyTorch's FSDP gives InternEvo's optimizer gradients in one piece, so it needs no copy of them in half precision.
constexpr Bytes flattened{2};

/// NVIDIA's recipes sum gradients in half precision (NeMo's and Megatron-Bridge's grad_reduce_in_fp32 = False, NeMo 1's grad_sync_dtype:
/// bf16): a product adds its own to those of earlier micro-batches, read and written. The step copies those of the parameters that it
/// updates to fp32.
void sum_in_half(program::LayerRuntime& layers) {
  layers.in_bf16.gradients = layers.gradient_half = {2};
  layers.added_half = {4};
  layers.update_temporaries_half = {4};
}

/// Activations that wait in the host's memory are copied there and back.
void keep_in_host(program::LayerRuntime& layers, const Parallel& parallel, const cluster::CatalogueEntry& device) {
  layers.blocks_in_host = parallel.blocks_in_host;
  if (parallel.blocks_in_host == 0) return;
  FLOTILLA_REQUIRE(device.host_link_rate.known() && device.host_link_share.known(), ErrorKind::unavailable, "copies between ",
                   in_quotes(device.name), " and its host");
  layers.host_copies = {device.host_link_rate.value * device.host_link_share.value};
  layers.host_copies_block = layers.host_copies_parted = parallel.blocking_copies;
}

}  // namespace

void set_memory(program::LayerRuntime& layers, const Run& run, bool recipes, const cluster::CatalogueEntry& device) {
  if (recipes) sum_in_half(layers);
  keep_in_host(layers, run.parallel, device);
  if (run.fused_loss) layers.logit_gradient = fused_loss_logit;
  if (run.one_kernel_loss) layers.logit_kept = layers.logit_gradient = one_kernel_logit;
  layers.defers_head = run.deferred_head;
  if (layers.workspaces.count > 0) layers.workspaces += more_workspaces(run, device);
  if (run.gradients_stay) layers.in_fp16 = gradients_in_fp16;
  if (run.parallel.sharding == Sharding::parameters && layers.update_temporaries_half > flattened)
    layers.update_temporaries_half = layers.update_temporaries_half - flattened;
}

}  // namespace flotilla::published
