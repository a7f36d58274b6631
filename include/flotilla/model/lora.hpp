#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace flotilla::model {

/// The linear layers of a block.
enum class Linear : std::uint8_t { qkv, out, up, down };
inline constexpr std::array linears{Linear::qkv, Linear::out, Linear::up, Linear::down};

/// As its tensors are called within a block: "attention.qkv", "attention.out", "feed_forward.up", "feed_forward.down".
std::string_view to_string(Linear);
/// Throws Error{bad_input}.
Linear parse_linear(std::string_view);

/// Low-rank adapters beside frozen weights (Hu et al. 2021, https://arxiv.org/abs/2106.09685): a linear layer that is a target computes
/// x W^T + scale (x A^T) B^T, and A (rank, inputs) and B (outputs, rank) alone are trained. What a family holds as several matrices and we
/// as one has an adapter for each: parts.
struct Lora {
  int rank = 0;      ///< 0: none
  double alpha = 0;  ///< scale is alpha / rank
  std::vector<Linear> targets = {};
  int qkv_parts = 1;  ///< 3: queries, keys and values apart
  int up_parts = 1;   ///< 2: gate and up apart

  bool operator==(const Lora&) const = default;

  bool on() const { return rank > 0; }
  double scale() const { return alpha / rank; }
  bool adapts(Linear linear) const { return on() && std::ranges::find(targets, linear) != targets.end(); }
  int parts(Linear linear) const { return linear == Linear::qkv ? qkv_parts : linear == Linear::up ? up_parts : 1; }
};

}  // namespace flotilla::model
