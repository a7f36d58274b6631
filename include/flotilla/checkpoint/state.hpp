#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::checkpoint {

/// What is kept per parameter, and the group of state.h5 that holds it.
enum class Kind { parameters, moment1, moment2 };
inline constexpr std::array kinds{Kind::parameters, Kind::moment1, Kind::moment2};
/// "parameters", "adamw/moment1", "adamw/moment2".
std::string_view group_of(Kind);

/// One tensor's shard on this rank, in memory that the trainer owns; each span has shard.elements() values.
struct LocalTensor {
  int tensor = -1;  ///< index into LocalState::tensors
  plan::Shard shard;
  std::span<float> parameters, moment1, moment2;
  bool owner = false;  ///< as plan::Holder's: this rank writes it. Loading fills every part, owned or not.

  std::span<float> values(Kind kind) const { return kind == Kind::parameters ? parameters : kind == Kind::moment1 ? moment1 : moment2; }
};

/// What this rank holds of the training state. `tensors` is the whole model's list, the same on every rank.
struct LocalState {
  const std::vector<model::Tensor>* tensors = nullptr;
  std::vector<LocalTensor> parts;
};

}  // namespace flotilla::checkpoint
