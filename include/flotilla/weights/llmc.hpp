#pragma once
#include <filesystem>

#include "flotilla/base/precision.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/weights/export.hpp"

/// The model files of llm.c: a GPT-2 in one file, all of it fp32 or bf16. docs/formats/llmc.md.
namespace flotilla::weights {

/// The model that a file of llm.c holds, named after the file, and the precision of its elements. Without dropout, which llm.c does not
/// know. Local. Throws Error{bad_input}: file, place in the header, what was expected.
struct LlmcModel {
  model::Config config;
  Precision precision = Precision::fp32;
};
LlmcModel read_llmc_header(const std::filesystem::path&);

/// Writes a file of llm.c as the folder of a Hugging Face model, in the file's precision, bit by bit: model.safetensors, config.json,
/// generation_config.json. The folder appears whole or not at all. Memory is bounded by the largest matrix. Local. Throws
/// Error{bad_input} as read_llmc_header() does, when the file was cut, or when `folder` exists; Error{temporary, unavailable} when it
/// cannot be written.
ExportReport import_llmc(const std::filesystem::path& file, const std::filesystem::path& folder);

/// Writes the weights of a committed checkpoint as a file of llm.c; adapters are merged, words are padded to a multiple of 128 with zeros.
/// The file appears whole or not at all. Local. Throws Error{bad_input} when the checkpoint is damaged, when its model is no GPT-2, when
/// llm.c has no such precision, or when `file` exists; Error{temporary, unavailable} when it cannot be written.
ExportReport export_llmc(const std::filesystem::path& step_directory, const std::filesystem::path& file, Precision);

}  // namespace flotilla::weights
