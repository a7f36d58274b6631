#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "adapters.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/checkpoint/stored_parameters.hpp"
#include "flotilla/plan/plan.hpp"
#include "sources.hpp"

/// Private: the model in a committed checkpoint, as others want its tensors.
namespace flotilla::weights {

/// One of their tensors: which of ours it is a part of, and the how manyeth of its sources.
struct Target {
  int tensor = 0, number = 0;
  TensorSource source;
};

/// All of Hugging Face's, in the order of model::tensors(); adapters' tensors are none of theirs.
std::vector<Target> targets_of(const model::Config&);

class StoredModel {
 public:
  /// Throws Error{bad_input} where the checkpoint is damaged or does not say its model.
  explicit StoredModel(const std::filesystem::path& step_directory);

  const std::filesystem::path& step() const { return step_; }
  const checkpoint::Manifest& manifest() const { return manifest_; }
  const plan::Plan& plan() const { return plan_; }
  const model::Config& config() const { return plan_.model; }
  const std::vector<model::Tensor>& tensors() const { return tensors_; }
  checkpoint::StoredParameters& parameters() { return parameters_; }

  /// All elements of one of theirs in their order, with the adapter that belongs to it merged, some rows at a time. `rows` is called on a
  /// thread of its own while the next ones are read; what it throws is thrown here.
  void read(const Target&, const std::function<void(std::span<const float>)>& rows);

 private:
  std::filesystem::path step_;
  checkpoint::Manifest manifest_;
  plan::Plan plan_;
  std::vector<model::Tensor> tensors_;
  checkpoint::StoredParameters parameters_;
  std::vector<float> values_, ahead_;
};

}  // namespace flotilla::weights
