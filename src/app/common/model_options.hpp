#pragma once
#include <string>

#include "app/common/commands.hpp"
#include "flotilla/inference/loaded_model.hpp"

namespace flotilla::app {

/// Options of the commands that look at a model.
struct ModelOptions {
  std::string tokenizer;  ///< empty: the one beside the weights
  inference::LoadOptions load;
};
void add_model(options::Table&, ModelOptions&);

/// The tokenizer's file; empty: none, bytes are tokens.
std::filesystem::path tokenizer_of(const ModelOptions&, const inference::Subject&);

}  // namespace flotilla::app
