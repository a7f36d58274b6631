#include <array>

#include "flotilla/base/error.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/program/runtime.hpp"

namespace flotilla::program {
namespace {

constexpr double MB = 1e6, MiB = 1 << 20;

/// PyTorch's allocator reserved 1.19 to 1.31 times what was allocated at the peak (Megatron-LM on V100, jeanzay_v100, by rank).
constexpr double pytorch_reserved = 0.2;

/// Of what the allocator reserves beside tensors, what it cannot give back where a device is full: blocks beside such as are in use.
/// BLOOM's runs on 80 GiB have 0.25 to 0.56 of it: one forecast at 76.2 GiB went out of memory, one at 72.1 did not.
constexpr double held_when_full = 0.4 * pytorch_reserved;

/// PyTorch's cross entropy of logits in fp32 keeps the logarithm of their softmax. Its backward pass has the gradients of that and of the
/// logits, both in fp32.
constexpr Bytes gradients_of_log_softmax{8};

/// DeepSpeed's MEMORY_OPT_ALLREDUCE_SIZE.
constexpr std::int64_t deepspeed_summed_together = 500'000'000;

/// Megatron's fused softmax takes four matrices of scores at a time (warps of a block of threads).
constexpr int megatron_fused_scores = 4;

/// Of vTrain's runs, what a micro-batch takes beside its blocks where the host decides: it is read, copied to the device and given to the
/// tensor-parallel group. Megatron-Core's test models confirm it.
constexpr double megatron_microbatch = 2e-3;

/// Of peaks where nobody published any of the runtime: the largest of the others (docs/measurements/error-bars.md).
constexpr double unknown_memory_error = 0.55;

/// Of passes that wait for the host, whose cores, drivers and framework's version are not known (docs/measurements/error-bars.md).
constexpr double unknown_host_error = 0.45;

/// Of a device's multiprocessors, those that NCCL's kernels hold while they move what NVLink carries: 24 blocks of threads among H100's 132
/// (seen in traces of FSDP, NVIDIA's developer forum, thread 337991). Lee et al. 2025 (arXiv 2507.03114) measured that overlapped computing
/// becomes 18.9 % slower in the mean on A100, H100, MI210 and MI250.
constexpr double multiprocessors_of_nccl = 24.0 / 132;

Bytes bytes(double count) { return {static_cast<std::int64_t>(count)}; }

/// Megatron-DeepSpeed as the Sailor artifact ran it: fp32, Adam, pipeline engine of DeepSpeed. docs/runtimes.md derives each figure.
LayerRuntime megatron_deepspeed() {
  LayerRuntime r;
  r.in_fp32 = {{4}, {4}, {8}, {8}};
  r.in_fp16 = {{2}, {2}, {16}, {0}};
  r.in_bf16 = {{2}, {6}, {12}, {0}};
  r.summed_together = deepspeed_summed_together;
  r.reserved_half = pytorch_reserved;
  r.held_when_full_half = held_when_full;
  r.scores_alive = 4;
  r.logits_alive = 1;
  r.process = bytes(2150 * MB);
  r.tensor_group = bytes(1000 * MB);
  r.neighbour = bytes(100 * MB);
  r.blocking = true;
  r.buffered = bytes(16 * MiB);
  r.handshake = {0.8e-3};
  r.reduction_bucket = bytes(500 * MB);
  r.reduction_rate = {4.75e9};
  r.reduction_host = {6e-3};
  r.kernels_fp32 = {6, 22, 0, 1, 1, false, {50e-6}};
  r.kernels_half = {6.5, 10, 0, 0.92, 1, false, {35e-6}};
  r.kernels_half.fused_scores = megatron_fused_scores;
  r.microbatch_host = {megatron_microbatch};
  r.update_half = {30};
  r.gradient_half = {2};
  r.shards = true;
  r.relative_error = 0.08;
  r.relative_error_half = 0.09;
  r.memory_error = 0.08;
  r.memory_error_half = 0.42;
  r.profiler_host = {0.08e-3};
  return r;
}

/// Megatron-LM (Narayanan et al. 2021; Korthikanti et al. 2022): mixed precision, interleaved 1F1B, activations scattered for transfers.
LayerRuntime megatron_lm() {
  LayerRuntime r;
  r.in_fp32 = {{4}, {4}, {8}, {0}};
  r.in_fp16 = r.in_bf16 = {{2}, {4}, {12}, {0}};
  r.scattered = true;
  r.update_half = {58};
  r.kernels_fp32 = r.kernels_half = {6.5, 10, 0, 1, 1, false, {}};
  r.shards = true;
  r.relative_error = 0.03;
  r.relative_error_half = 0.05;
  r.memory_error = r.memory_error_half = 0.26;
  r.reduction_bucket = {};
  return r;
}

/// Megatron-Core: mixed precision, flash attention, sums of gradients and gathers of weights beside the passes.
LayerRuntime megatron_core() {
  LayerRuntime r;
  r.in_fp32 = {{4}, {4}, {8}, {0}};
  r.in_fp16 = {{2}, {2}, {12}, {0}};
  r.in_bf16 = {{2}, {4}, {12}, {0}};
  r.scattered = true;
  r.update_half = {58};
  r.shards = true;
  r.overlaps = true;
  r.collective_share = multiprocessors_of_nccl;
  r.expert_parallel = 0;
  r.groups_experts = true;
  r.logit_gradient = {2};
  r.workspaces = bytes(30 * MB);
  r.reserved_half = pytorch_reserved;
  r.process = bytes(2150 * MB);
  r.tensor_group = bytes(1000 * MB);
  r.neighbour = bytes(100 * MB);
  r.microbatch_host = {megatron_microbatch};
  r.kernels_fp32 = r.kernels_half = {0, 0, 0.5, 0.92, 1, false, {105e-6}};
  r.relative_error = r.relative_error_half = 0.03;
  r.memory_error = r.memory_error_half = 0.55;
  return r;
}

/// PyTorch's FullyShardedDataParallel (Zhao et al. 2023): weights gathered layer by layer in half precision, state in fp32.
LayerRuntime pytorch_fsdp() {
  LayerRuntime r;
  r.in_fp32 = {{4}, {4}, {8}, {0}};
  r.in_fp16 = r.in_bf16 = {{4}, {4}, {8}, {0}};
  r.scattered = true;
  r.update_half = {28};
  r.gradient_half = {2};
  r.shards = true;
  r.sharded = ShardedState::parameters;
  r.overlaps = true;
  r.collective_share = multiprocessors_of_nccl;
  r.groups_experts = true;
  r.logit_gradient = gradients_of_log_softmax;
  r.reserved_half = pytorch_reserved;
  r.kernels_fp32 = r.kernels_half = {0, 0, 0.33, 0.92, 3, false, {20e-6}, true, true};
  r.relative_error = r.relative_error_half = 0.1;
  r.memory_error = r.memory_error_half = 0.23;
  return r;
}

/// InternEvo (Chen et al. 2024): ZeRO-1 in groups, sums of gradients beside the passes.
LayerRuntime internevo() {
  LayerRuntime r;
  r.in_fp32 = {{4}, {4}, {8}, {0}};
  r.in_fp16 = r.in_bf16 = {{2}, {2}, {12}, {0}};
  r.scattered = true;
  r.update_half = {40};
  r.update_temporaries_half = {14};
  r.gradient_half = {2};
  r.process = bytes(2150 * MB);
  r.tensor_group = bytes(1000 * MB);
  r.neighbour = bytes(100 * MB);
  r.shards = true;
  r.overlaps = true;
  r.collective_share = multiprocessors_of_nccl;
  r.kernels_fp32 = r.kernels_half = {0, 0, 0.36, 0.83, 2, false, {20e-6}, true};
  r.relative_error = r.relative_error_half = 0.05;
  r.memory_error = r.memory_error_half = 0.14;
  return r;
}

/// DeepSpeed's ZeRO under Hugging Face's trainer: PyTorch's eager kernels, weights gathered in half precision, sums in 500 MB buckets.
LayerRuntime deepspeed() {
  LayerRuntime r = pytorch_fsdp();
  r.groups_experts = false;
  r.in_fp16 = r.in_bf16 = {{2}, {2}, {12}, {0}};
  r.kernels_fp32 = r.kernels_half = {0, 0, 0.33, 0.92, 2, false, {130e-6}, true};
  r.relative_error = r.relative_error_half = 0.11;
  r.memory_error = r.memory_error_half = 0.22;
  return r;
}

/// Programs that XLA compiles from JAX (PaxML, MaxText): fused kernels, a step is started as a whole, weights sharded over all devices.
LayerRuntime jax() {
  LayerRuntime r = pytorch_fsdp();
  r.logit_gradient = {};
  r.reserved_half = 0;
  r.kernels_fp32 = r.kernels_half = {0, 0, 0.5, 0.92, 1.5, true, {}};
  r.relative_error = r.relative_error_half = 0.18;
  r.memory_error = r.memory_error_half = unknown_memory_error;
  return r;
}

/// llm.c: training written in CUDA alone; cuDNN's attention, fused kernels, ZeRO-1, no framework between them.
LayerRuntime llm_c() {
  LayerRuntime r;
  r.in_fp32 = {{4}, {4}, {8}, {0}};
  r.in_fp16 = r.in_bf16 = {{2}, {2}, {12}, {0}};
  r.scattered = true;
  r.update_half = {28};
  r.gradient_half = {2};
  r.shards = true;
  r.overlaps = true;
  r.collective_share = multiprocessors_of_nccl;
  r.kernels_fp32 = r.kernels_half = {0, 0, 0.5, 0.92, 1, true, {}};
  r.relative_error = r.relative_error_half = 0.1;
  r.memory_error = r.memory_error_half = unknown_memory_error;
  return r;
}

struct Named {
  std::string_view name;
  std::optional<LayerRuntime> (*description)();
};
constexpr std::array<Named, 9> known{{{"flotilla", [] { return std::optional<LayerRuntime>{}; }},
                                      {"megatron-deepspeed", [] { return std::optional{megatron_deepspeed()}; }},
                                      {"megatron-lm", [] { return std::optional{megatron_lm()}; }},
                                      {"megatron-core", [] { return std::optional{megatron_core()}; }},
                                      {"pytorch-fsdp", [] { return std::optional{pytorch_fsdp()}; }},
                                      {"internevo", [] { return std::optional{internevo()}; }},
                                      {"deepspeed", [] { return std::optional{deepspeed()}; }},
                                      {"jax", [] { return std::optional{jax()}; }},
                                      {"llm.c", [] { return std::optional{llm_c()}; }}}};

}  // namespace

Runtime runtime_named(std::string_view name) {
  for (const auto& entry : known)
    if (entry.name == name) {
      Runtime runtime;
      runtime.name = name;
      runtime.layers = entry.description();
      if (runtime.layers) runtime.layers->host_error = unknown_host_error;
      return runtime;
    }
  throw Error{ErrorKind::usage, text("no such runtime: '", name, "'", suggestion(std::string{name}, runtime_names()))};
}

std::vector<std::string> runtime_names() {
  std::vector<std::string> names;
  for (const auto& entry : known) names.emplace_back(entry.name);
  return names;
}

}  // namespace flotilla::program
