#pragma once
#include <optional>
#include <string>

#include "app/common/commands.hpp"
#include "flotilla/inference/loaded_model.hpp"

namespace flotilla::app {

/// Options of the commands that look at a model.
struct ModelOptions {
  std::string tokenizer;                      ///< empty: the one beside the weights
  std::optional<cluster::DeviceKind> device;  ///< nothing: a GPU while there are GPUs
  bool tf32 = false;
  inference::ModelLoadOptions load;
};
void add_model(options::Table&, ModelOptions&);

/// How this rank loads the model, its device chosen. Collective. Throws as session::choose_device does.
inference::ModelLoadOptions load_options(const comm::World&, const ModelOptions&);

/// The tokenizer's file; empty: none, bytes are tokens.
std::filesystem::path tokenizer_of(const ModelOptions&, const inference::Subject&);

}  // namespace flotilla::app
