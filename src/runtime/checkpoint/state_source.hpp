#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "flotilla/checkpoint/checkpoint.hpp"

namespace flotilla::checkpoint {

/// Where a save finds what this rank owns: memory that holds it at once, or a file that is read piece by piece.
struct StateSource {
  const std::vector<model::Tensor>* tensors = nullptr;
  /// Gives every piece to `take`, each for the time of the call. Called more than once. Throws Error.
  std::function<void(const std::function<void(const LocalState&)>& take)> visit;
  /// Of a source that may have decayed: throws Error{bad_input} where these are not the remainders of what was written. May be empty.
  std::function<void(std::span<const std::uint32_t> remainders)> require_sound;
};

/// save() of a state from any source.
SaveReport save_from(const comm::World&, const std::filesystem::path& run, const StateSource&, const Manifest&, const SaveOptions&);

}  // namespace flotilla::checkpoint
