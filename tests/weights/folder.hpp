#pragma once
#include <filesystem>
#include <string>

#include "reference/reference_numbers.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::tests {

/// A folder with the weights that Hugging Face has written of a reference model, and its config.json.
class ModelFolder : public TemporaryFolder {
 public:
  explicit ModelFolder(const std::string& model) {
    std::filesystem::copy_file(reference_file(model + ".safetensors"), *this / "model.safetensors");
    std::filesystem::copy_file(reference_file(model + ".config.json"), *this / "config.json");
  }
};

}  // namespace flotilla::tests
