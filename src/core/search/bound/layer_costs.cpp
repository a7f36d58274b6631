#include "layer_costs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::search::bound {
namespace {

using pool::DevicePool;
using pool::LayerCostTable;
using pool::PoolType;

constexpr int unlimited = 1 << 20;  // blocks

/// Bytes of a stage by what it holds: a straight line in its blocks for each of the ends that it has.
struct StageBytes {
  double block = 0;
  std::array<double, 4> without_blocks{};
  int most_blocks(int ends, double limit) const {
    if (without_blocks[at(ends)] > limit) return -1;
    return block > 0 ? static_cast<int>(std::min<double>(unlimited, (limit - without_blocks[at(ends)]) / block)) : unlimited;
  }
};

class LayerCostsBuilder {
 public:
  LayerCostsBuilder(const DevicePool& device_pool, LayerCostTable& layer_cost_table, int largest)
      : device_pool_{device_pool},
        request_{device_pool.request},
        layer_cost_table_{layer_cost_table},
        largest_{std::min(largest, request_.global_batch)},
        tensors_of_one_block_{model::tensors(one_block(false))} {}

  LeastLayerCosts run() {
    costs_.layers = request_.model.layers();
    costs_.is_ours = layer_cost_table_.bounds() != nullptr;
    count_elements();
    for (int type = 0; type < static_cast<int>(device_pool_.types.size()); ++type) {
      const PoolType& t = device_pool_.types[at(type)];
      for (const int tensor : device_pool_.degrees)
        if (tensor <= std::min(t.widest, t.count)) add(type, tensor);
    }
    return std::move(costs_);
  }

 private:
  void count_elements() {
    for (const auto& tensor : model::tensors(one_block(true))) {
      const auto elements = static_cast<double>(tensor.elements());
      if (tensor.tied_layer >= 0)
        costs_.elements.token_embedding += elements;
      else
        costs_.elements.own[at(kind_of(tensor.layer))] += elements;
    }
  }

  /// Blocks are alike: counting one of them is enough. Where some have experts, of both kinds the one with `fewer` elements, or the other.
  model::Config one_block(bool fewer) const {
    model::Config model = request_.model;
    const bool dense = fewer && model.has_dense_blocks();
    model.blocks = 1;
    model.experts.dense_blocks.clear();
    if (dense) model.experts = {};
    return model;
  }
  static int kind_of(int layer_of_one_block) { return layer_of_one_block; }

  void add(int type, int tensor) {
    ReplicaOption option{type, tensor, {}, {}, 0};
    for (int most = 1;; most = std::min(2 * most, largest_)) {
      MicrobatchCosts costs;
      costs.most = most, costs.least = option.microbatches.empty() ? 1 : option.microbatches.back().most + 1;
      add_memory(type, tensor, costs);
      if (!add_seconds(type, tensor, costs)) return;
      option.microbatches.push_back(costs);
      if (most == largest_) break;
    }
    add_updates(option);
    costs_.options.push_back(std::move(option));
  }

  bool add_seconds(int type, int tensor, MicrobatchCosts& costs) {
    bool known = false;
    for (const bool sequence_parallel : {false, true}) {
      if (!may_be(request_.constraints.sequence_parallel, sequence_parallel) || (sequence_parallel && tensor == 1 && known)) continue;
      if (!costs_.is_ours && known) continue;
      if (!add_seconds(type, tensor, sequence_parallel, known, costs)) return false;
      known = true;
    }
    return true;
  }

  static bool may_be(const std::optional<bool>& decided, bool value) { return decided.value_or(value) == value; }

  bool add_seconds(int type, int tensor, bool sequence_parallel, bool known, MicrobatchCosts& costs) {
    if (!costs_.is_ours) {
      const auto& pass = layer_cost_table_.least_pass(type, tensor, costs.most, plan::Recompute::none);
      costs.backward = {pass.embedding, pass.block, pass.head};
      return pass.usable;
    }
    const auto bounds = layer_cost_table_.layer_bounds(type, tensor, costs.most, plan::Recompute::none, sequence_parallel);
    if (!bounds) return false;
    const auto least = [&](double& into, Seconds seconds) { into = known ? std::min(into, seconds.value) : seconds.value; };
    for (std::size_t k = 0; k < layer_kinds; ++k) {
      least(costs.forward[k], (*bounds)[k].forward);
      const simulate::LayerBound& layer = (*bounds)[k];
      const bool splits = layer.weights_half.value > 0;  // halves may take less than the whole where tokens are shared
      least(costs.backward[k], splits ? std::min(layer.backward, layer.input_half + layer.weights_half) : layer.backward);
      costs.weights[k] = std::max(costs.weights[k], layer.weights_half.value);
    }
    for (const auto mode : {plan::Recompute::selective, plan::Recompute::full}) {
      if (!needs_recompute(costs)) break;
      const auto again = layer_cost_table_.layer_bounds(type, tensor, costs.most, mode, sequence_parallel);
      if (again) least(costs.recompute[static_cast<std::size_t>(mode)], (*again)[block].recompute);
    }
    return true;
  }

  void add_memory(int type, int tensor, MicrobatchCosts& costs) const {
    const double limit = static_cast<double>(device_pool_.types[at(type)].memory.count);
    for (int mode = 0; mode < recompute_modes; ++mode) {
      auto& most = costs.most_blocks[at(mode)];
      most.fill(unlimited);
      if (limit <= 0 || !costs_.is_ours) continue;
      if (mode > 0 && !needs_recompute(costs)) {  // more seconds and nothing won
        most.fill(-1);
        continue;
      }
      const StageBytes& bytes = stage_bytes(tensor, costs.least, static_cast<plan::Recompute>(mode));
      for (int ends = 0; ends < 4; ++ends) most[at(ends)] = bytes.most_blocks(ends, limit);
    }
  }

  /// Whether some stage does not fit without.
  bool needs_recompute(const MicrobatchCosts& costs) const { return costs.most_blocks[0][3] < request_.model.blocks; }

  const StageBytes& stage_bytes(int tensor, int microbatch, plan::Recompute mode) const {
    const std::array key{tensor, microbatch, static_cast<int>(mode)};
    for (const auto& [known, bytes] : stage_bytes_)
      if (known == key) return bytes;
    stage_bytes_.emplace_back(key, StageBytes{});
    StageBytes& out = stage_bytes_.back().second;
    const int layers = costs_.layers;
    const auto bytes = [&](int first, int last) { return least_bytes(first, last, tensor, microbatch, mode); };
    if (request_.model.blocks > 1) {
      const double one = bytes(1, 2);
      out.block = bytes(1, 3) - one;
      if (!request_.model.experts.dense_blocks.empty()) {
        const double beside = one - (bytes(1, 3) - bytes(2, 3));
        for (int block = 1; block <= request_.model.blocks; ++block) out.block = std::min(out.block, bytes(block, block + 1) - beside);
      }
      out.without_blocks = {one - out.block, bytes(0, 2) - out.block, bytes(layers - 2, layers) - out.block,
                            bytes(0, layers) - request_.model.blocks * out.block};
    }
    return out;
  }

  /// Whether tokens are shared or not, and with the optimizer sharded over as many replicas as there can be, where either may be.
  double least_bytes(int first, int last, int tensor, int microbatch, plan::Recompute mode) const {
    double least = 1e300;
    for (const bool sequence_parallel : {false, true}) {
      if (!may_be(request_.constraints.sequence_parallel, sequence_parallel) || (sequence_parallel && tensor == 1 && least < 1e300))
        continue;
      const model::LayerShape shape{microbatch, request_.length, tensor, 0, request_.precision, sequence_parallel && tensor > 1};
      least =
          std::min(least, static_cast<double>(layer_cost_table_.bounds()->memory_bound(request_.model, first, last, shape, mode, 1).count));
    }
    return least - (may_shard(request_) ? shardable_bytes({first, last}, tensor) : 0);
  }

  static bool may_shard(const PlanRequest& request) { return request.constraints.shard_optimizer.value_or(true); }

  /// Moments, and in half precision the fp32 parameters. Tensors that are not cut are whole on every device, so this counts a part too few.
  double shardable_bytes(const Interval& i, int tensor) const {
    const double bytes = request_.precision == Precision::fp32 ? 8 : 12;
    const double token_embedding = costs_.begins(i) || costs_.ends(i) ? costs_.elements.token_embedding : 0;
    return bytes * elements_of_a_device(costs_.of(costs_.elements.own, i) + token_embedding, i, tensor);
  }
  /// At most: as though small tensors were whole.
  double elements_of_a_device(double all, const Interval& i, int tensor) const {
    if (tensor == 1 && request_.model.experts.dense_blocks.empty()) return all;
    double held = 0, block_held = 0;
    for (const auto& tensor_of : tensors_of_one_block_) {
      const auto elements = static_cast<double>(plan::shard_elements(tensor_of, tensor, 0));
      if (tensor_of.layer == 1)
        block_held += elements;
      else if ((tensor_of.layer == 0 && (costs_.begins(i) || (tensor_of.tied_layer >= 0 && costs_.ends(i)))) ||
               (tensor_of.layer == 2 && costs_.ends(i)))
        held += elements;
    }
    return held + costs_.blocks(i) * block_held;
  }

  void add_updates(ReplicaOption& option) const {
    if (!costs_.is_ours) return;
    constexpr std::int64_t some = 1 << 20;
    const double each =
        layer_cost_table_.bounds()->optimizer_bound(some, request_.precision, device_pool_.types[at(option.type)].name).value /
        static_cast<double>(some);
    for (std::size_t k = 0; k < layer_kinds; ++k) option.update[k] = each * costs_.elements.own[k] / option.tensor;
    option.token_embedding_update = each * costs_.elements.token_embedding / option.tensor;
  }

  const DevicePool& device_pool_;
  const PlanRequest& request_;
  LayerCostTable& layer_cost_table_;
  int largest_;
  const std::vector<model::Tensor> tensors_of_one_block_;
  LeastLayerCosts costs_;
  mutable std::vector<std::pair<std::array<int, 3>, StageBytes>> stage_bytes_;
};

}  // namespace

LeastLayerCosts layer_costs_of(const DevicePool& device_pool, LayerCostTable& layer_cost_table, int largest) {
  return LayerCostsBuilder{device_pool, layer_cost_table, largest}.run();
}

}  // namespace flotilla::search::bound
