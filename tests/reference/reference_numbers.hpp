#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/model/config.hpp"
#include "flotilla/model/tensors.hpp"

/// What PyTorch computed (README.md), and the formulas for what it computed it from.
namespace flotilla::tests {

struct ReferenceStep {
  double loss = 0, gradient_norm = 0, learning_rate = 0;
};

struct ReferenceNumbers {
  static constexpr int sequences = 4, length = 10;

  model::Config model;  ///< read from the Hugging Face configuration that PyTorch's model was made from
  std::vector<ReferenceStep> steps;
  std::vector<double> logits;                            ///< (sequences, length, vocabulary), of step 0
  std::map<std::string, std::vector<double>> gradients;  ///< of step 0, before clipping
  std::map<std::string, std::vector<double>> updated;    ///< parameters after the last step
};

/// One of `reference_models`. Throws std::runtime_error naming the file when its layout is not that of the model's tensors.
ReferenceNumbers reference_numbers(const std::string& name);
inline constexpr const char* reference_models[] = {"gpt2",  "opt",      "opt_post", "gpt_neo", "llama", "llama_tied",
                                                   "qwen3", "gpt_neox", "bloom",    "gemma2",  "gemma3"};

/// The same model where sequences hold several documents that are kept apart: one step, whose parameters were not updated. One of
/// `document_models`. Throws likewise.
ReferenceNumbers document_numbers(const std::string& name);
inline constexpr const char* document_models[] = {"gpt2", "llama", "qwen3", "gpt_neox"};
/// Where the document of each of their tokens begins in its sequence: (sequences, length).
std::vector<std::int32_t> document_starts();

/// What PEFT computed of LoRA adapters on a reference model.
struct AdapterNumbers {
  model::Config model;                                   ///< with its adapters
  ReferenceStep step;                                    ///< loss, and the norm of the adapters' gradients
  std::map<std::string, std::vector<double>> gradients;  ///< of the adapters
  std::map<std::string, std::vector<double>> merged;     ///< the targets' weights, merged
};
/// One of `adapted_models`. Throws as reference_numbers does.
AdapterNumbers adapter_numbers(const std::string& name);
inline constexpr const char* adapted_models[] = {"gpt2", "opt", "llama"};

/// A file of the folder of PyTorch's results: "gpt2.safetensors".
std::filesystem::path reference_file(const std::string& name);

/// The weights that training starts from, exact in fp32.
std::vector<double> reference_weights(const model::Tensor&);
/// sequences * length + 1 of them; sequence i is [i * length, (i+1) * length].
std::vector<std::uint16_t> reference_tokens(const model::Config&);

/// Issue bounds of "same maths": relative for loss and, by norm, logits; and for gradient tensors, see `gradient_scale`.
inline constexpr double reference_tolerance = 1e-5;
/// max(norm of the tensor's gradient, 1e-3 x the largest norm in its layer), by tensor.
std::vector<double> gradient_scales(const ReferenceNumbers&);

}  // namespace flotilla::tests
