#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "flotilla/base/precision.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::files {

/// A Hugging Face `config.json` of the GPT-2, OPT, GPT-Neo, Llama, Mistral or Qwen2 family; the model is named after the file's folder, or
/// the file's stem where it is not called config.json. Keys that do not change the arithmetic are ignored; values that Flotilla does not
/// implement (other activations, cross-attention, other kinds of rotation, ...) are refused by key with what was expected. Throws
/// Error{bad_input}.
model::Config read_hugging_face_config(const std::filesystem::path&);
model::Config hugging_face_config_from_json(std::string_view text, std::string_view source, std::string_view name);

/// The config.json of a model with weights of this precision: what `original` says, the text of the config.json that the model was read
/// from, or, where that is empty, every key that the arithmetic depends on. Throws Error{unavailable} for a family that is not ours.
std::string hugging_face_config_to_json(const model::Config&, Precision, std::string_view original);

}  // namespace flotilla::files
