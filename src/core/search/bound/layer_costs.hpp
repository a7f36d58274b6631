#pragma once
#include <array>
#include <limits>
#include <vector>

#include "pool/layer_cost_table.hpp"

/// What layers cost at least, by type of device, tensor degree and microbatch: all that the bound knows of compute and memory.
namespace flotilla::search::bound {

using pool::at;

inline constexpr double impossible = std::numeric_limits<double>::infinity();

enum LayerCostKind { embedding, block, head, layer_kinds };
using ByKind = std::array<double, layer_kinds>;

inline constexpr int recompute_modes = 3;  ///< as plan::Recompute

/// Which layers a stage holds: [first, last) of the model.
struct Interval {
  int first = 0, last = 0;
  bool operator==(const Interval&) const = default;
};

/// Microbatches of more than half as many sequences as `most`, `most` at most. Seconds are of a microbatch of `most`, bytes of the least.
struct MicrobatchCosts {
  int least = 1, most = 1;
  ByKind forward{}, backward{};                     ///< seconds, what is recomputed left out
  ByKind weights{};                                 ///< of `backward`: gradients of weights, at most, where they may be made later
  std::array<double, recompute_modes> recompute{};  ///< of a block, seconds
  /// Blocks that fit the memory in a stage with neither end of the model, its beginning, its end, both; -1: not even none.
  std::array<std::array<int, 4>, recompute_modes> most_blocks{};
};

/// One way to hold a replica of a stage: devices of a type at a tensor degree.
struct ReplicaOption {
  int type = 0, tensor = 1;
  std::vector<MicrobatchCosts> microbatches;  ///< smallest first
  ByKind update{};                            ///< seconds of the optimizer, the token embedding left out
  double token_embedding_update = 0;
};

/// Elements of which gradients are summed, over the whole tensor-parallel group; the token embedding's apart.
struct SummedElements {
  ByKind own{};
  double token_embedding = 0;
};

struct LeastLayerCosts {
  std::vector<ReplicaOption> options;
  SummedElements elements;
  int layers = 0;
  bool is_ours = true;  ///< our own runtime's: gradient sums, schedules and memory are known
  int blocks(const Interval& i) const { return std::min(i.last, layers - 1) - std::max(i.first, 1); }
  bool begins(const Interval& i) const { return i.first == 0; }
  bool ends(const Interval& i) const { return i.last == layers; }
  /// Sum over the interval's layers.
  double of(const ByKind& each, const Interval& i) const {
    return (begins(i) ? each[embedding] : 0) + blocks(i) * each[block] + (ends(i) ? each[head] : 0);
  }
};

/// `largest`: sequences of the largest microbatch of the space.
LeastLayerCosts layer_costs_of(const pool::DevicePool&, pool::LayerCostTable&, int largest);

}  // namespace flotilla::search::bound
