#include <array>

#include "flotilla/base/error.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/program/runtime.hpp"

namespace flotilla::program {
namespace {

constexpr double MB = 1e6, MiB = 1 << 20;

Bytes bytes(double count) { return {static_cast<std::int64_t>(count)}; }

/// Megatron-DeepSpeed as the Sailor artifact ran it: fp32, Adam, pipeline engine of DeepSpeed. docs/runtimes.md derives each figure.
LayerRuntime megatron_deepspeed() {
  LayerRuntime r;
  r.in_fp32 = {{4}, {4}, {8}, {8}};
  r.in_half = {{2}, {2}, {12}, {8}};
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
  r.score_passes_forward = 6;
  r.score_passes_backward = 22;
  r.kernel_host = {50e-6};
  r.relative_error = 0.08;
  r.profiler_host = {0.08e-3};
  return r;
}

/// Megatron-LM (Narayanan et al. 2021; Korthikanti et al. 2022): mixed precision, interleaved 1F1B, activations scattered for transfers.
LayerRuntime megatron_lm() {
  LayerRuntime r;
  r.in_fp32 = {{4}, {4}, {8}, {0}};
  r.in_half = {{2}, {4}, {12}, {0}};
  r.scattered = true;
  r.update_half = {58};
  r.score_passes_forward = 6.5;
  r.score_passes_backward = 10;
  r.relative_error = 0.03;
  r.reduction_bucket = {};
  return r;
}

struct Named {
  std::string_view name;
  std::optional<LayerRuntime> (*description)();
};
constexpr std::array<Named, 3> known{{{"flotilla", [] { return std::optional<LayerRuntime>{}; }},
                                      {"megatron-deepspeed", [] { return std::optional{megatron_deepspeed()}; }},
                                      {"megatron-lm", [] { return std::optional{megatron_lm()}; }}}};

}  // namespace

Runtime runtime_named(std::string_view name) {
  for (const auto& entry : known)
    if (entry.name == name) {
      Runtime runtime;
      runtime.name = name;
      runtime.layers = entry.description();
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
