#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::checkpoint {

/// The parameters of a committed checkpoint, read piece by piece by one process without MPI. Local.
class StoredParameters {
 public:
  /// `tensors` is the list of the model that it was saved with, and outlives the value. Throws Error{bad_input} when the checkpoint is
  /// damaged or of another model, Error{temporary, unavailable} when it cannot be read.
  StoredParameters(const std::filesystem::path& step_directory, const std::vector<model::Tensor>& tensors);
  ~StoredParameters();

  /// Elements of the boxes, to their places in `values`. Every segment that they touch is read and compared with its checksum. Throws
  /// Error{bad_input} naming a damaged one.
  void read(int tensor, const std::vector<plan::Box>& boxes, std::span<float> values);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::checkpoint
