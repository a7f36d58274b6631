#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::checkpoint {

/// What is kept per parameter, and the group of state.h5 that holds it.
enum class StateKind { parameters, moment1, moment2 };
inline constexpr std::array kinds{StateKind::parameters, StateKind::moment1, StateKind::moment2};
/// "parameters", "adamw/moment1", "adamw/moment2".
std::string_view group_of(StateKind);

/// Whether there are values of the kind: of a frozen tensor, only parameters.
inline bool is_kept(StateKind kind, const model::Tensor& tensor) { return kind == StateKind::parameters || tensor.trained; }

/// One tensor's shard on this rank, or a piece of it, in memory that the trainer owns; each span has elements() values.
struct LocalTensor {
  int tensor = -1;  ///< index into LocalState::tensors
  plan::Shard shard;
  std::span<float> parameters, moment1, moment2;  ///< the moments may be empty, where others keep them and `owner` is false
  bool trained = true;                            ///< else the tensor is frozen, and nobody has moments of it
  bool owner = false;                             ///< as plan::Holder's: this rank writes it. Loading fills every part, owned or not.
  int piece = -1;                         ///< where the optimizer is sharded: index into program::shard_pieces(); -1: the whole shard
  std::vector<plan::Box> boxes = {};      ///< of a piece: its elements
  Precision precision = Precision::fp32;  ///< of `weights`
  std::span<const std::uint16_t> weights =
      {};  ///< of a shard in bf16 or fp16: the copies that steps compute with; checkpoints have none of them

  std::vector<plan::Box> boxes_in(const model::Tensor& whole) const { return piece < 0 ? plan::boxes(whole, shard) : boxes; }
  std::int64_t elements() const {
    std::int64_t sum = 0;
    for (const auto& box : boxes) sum += box.outer * box.inner;
    return piece < 0 ? shard.elements() : sum;
  }
  /// Whether the spans are as they must be.
  bool keeps(StateKind kind) const {
    const auto count = static_cast<std::int64_t>(values(kind).size());
    return count == elements() || (count == 0 && kind != StateKind::parameters && (!owner || !trained));
  }

  std::span<float> values(StateKind kind) const {
    return kind == StateKind::parameters ? parameters : kind == StateKind::moment1 ? moment1 : moment2;
  }
};

/// What this rank holds of the training state. `tensors` is the whole model's list, the same on every rank.
struct LocalState {
  const std::vector<model::Tensor>* tensors = nullptr;
  std::vector<LocalTensor> parts;
};

}  // namespace flotilla::checkpoint
