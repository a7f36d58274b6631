#pragma once
#include <cstdint>
#include <filesystem>

#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::weights {

struct WeightExportOptions {
  bool adapter = false;                   ///< the LoRA adapter alone, as PEFT has it; else it is merged into the weights
  Precision precision = Precision::fp32;  ///< of the written elements
  Bytes shard_size{5'000'000'000};        ///< of a file's tensors, at most; a larger tensor has a file of its own
};

struct ExportReport {
  int files = 0, tensors = 0;
  Bytes size;  ///< of the tensors
  /// Weights of norms that training moved off 1 and the precision rounds back to it; the farthest was `moved_most` away.
  std::int64_t norms_rounded_back = 0;
  double moved_most = 0;
};

/// Writes the weights of a committed checkpoint as the folder of a Hugging Face model: safetensors, config.json, generation_config.json,
/// README.md, and the files that the run has carried along; adapters are merged in fp32: W + scale B A. Or the adapter alone as PEFT's
/// folder: adapter_model.safetensors, adapter_config.json, README.md. The folder appears whole or not at all. Memory is bounded, some 64
/// MiB and a segment of the checkpoint, whatever the model's size. Local. Throws Error{bad_input} when the checkpoint is damaged, when a
/// weight does not fit the precision, when there is no adapter to export, or when `folder` exists; Error{unavailable} for a family whose
/// names are not known; Error{temporary, unavailable} when it cannot be written: nothing is left then.
ExportReport export_hugging_face(const std::filesystem::path& step_directory, const std::filesystem::path& folder,
                                 const WeightExportOptions& = {});

}  // namespace flotilla::weights
