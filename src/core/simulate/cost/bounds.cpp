#include "bounds.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "flotilla/model/block_end.hpp"
#include "layer_operations.hpp"

namespace flotilla::simulate {
namespace {

using model::Operation;
using program::CollectiveKind;
using program::Group;

constexpr std::int64_t fp32_bytes = 4;

/// Costs of one layer on one replica.
class GroupCosts {
 public:
  GroupCosts(const ProfileCost& cost, const model::Config& model, const model::LayerShape& shape, const std::string& type,
             const std::vector<Rank>& devices)
      : cost_{cost}, model_{model}, shape_{shape}, type_{type}, group_{Group::Kind::tensor, devices} {}

  Seconds operations(std::span<const Operation> list) const {
    Seconds sum;
    for (Operation operation : list) sum += cost_.operation(model_, type_, operation, shape_).time;
    return sum;
  }
  Seconds sum_over_group(int width) const {
    const Bytes element = element_size(shape_.precision);
    return collective(CollectiveKind::all_reduce, shape_.tokens() * width * element, element);
  }
  /// What every member holds of (tokens, width) elements to all of them; the same sizes as program::lower writes.
  Seconds gather(int width) const {
    const std::int64_t sequence = std::int64_t{shape_.length} * width * element_size(shape_.precision).count;
    const Bytes piece{(sequence + shape_.tensor_parallel - 1) / shape_.tensor_parallel};
    return collective(CollectiveKind::all_gather, shape_.sequences * piece, {fp32_bytes});
  }
  Seconds sum_to_pieces(int width) const {
    const Bytes element = element_size(shape_.precision);
    return collective(CollectiveKind::reduce_scatter, shape_.tokens() * width * element, element);
  }
  Seconds gather_stats() const { return collective(CollectiveKind::all_gather, {shape_.tokens() * 3 * fp32_bytes}, {fp32_bytes}); }

 private:
  Seconds collective(CollectiveKind kind, Bytes bytes, Bytes element) const {
    return group_.members.size() < 2 ? Seconds{0} : cost_.collective(kind, group_, bytes, element).time;
  }
  const ProfileCost& cost_;
  const model::Config& model_;
  const model::LayerShape& shape_;
  const std::string& type_;
  Group group_;
};

/// Of a block, where every member holds all tokens.
LayerBound whole_block_bound(const GroupCosts& costs, const model::Config& model, int layer, plan::Recompute recompute) {
  const Seconds sum = costs.sum_over_group(model.hidden);
  LayerBound bound;
  bound.forward = costs.operations(forward_operations(model, layer)) + 2 * sum;
  bound.backward = costs.operations(backward_operations(model, layer)) + 2 * sum;
  bound.input_half = costs.operations(input_half_operations(model, layer)) + 2 * sum;
  bound.weights_half = costs.operations(weights_half_operations(model, layer));
  if (recompute != plan::Recompute::full) return bound;
  // The end of a block is computed again only where it keeps the input of a norm.
  const bool whole = model::end_keeps(model);
  bound.recompute = costs.operations(forward_operations(model, layer).first(whole ? 3 : 2)) + (whole ? 2 : 1) * sum;
  return bound;
}

/// Where tokens are shared between products. Backward gathers the products' inputs beside the gradients, one after the other. In two halves
/// the inputs' half gathers the gradients alone; what the weights' half gathers may hide behind its products.
LayerBound shared_block_bound(const GroupCosts& costs, const model::Config& model, int layer, plan::Recompute recompute) {
  const Seconds gather = costs.gather(model.hidden), sum = costs.sum_to_pieces(model.hidden);
  const Seconds begins = costs.operations(std::array{Operation::attention_begin_forward, Operation::mlp_begin_forward});
  LayerBound bound;
  bound.forward = begins + costs.operations(forward_operations(model, layer)) + 2 * (gather + sum);
  const Seconds backward_begins = costs.operations(std::array{Operation::mlp_begin_backward, Operation::attention_begin_backward});
  bound.backward = backward_begins + costs.operations(backward_operations(model, layer)) + 4 * gather + 2 * sum;
  bound.input_half = backward_begins + costs.operations(input_half_operations(model, layer)) + 2 * gather + 2 * sum;
  bound.weights_half = costs.operations(std::array{Operation::mlp_begin_weights, Operation::attention_begin_weights}) +
                       costs.operations(weights_half_operations(model, layer));
  if (recompute != plan::Recompute::full) return bound;
  const bool whole = model::end_keeps(model);
  bound.recompute = begins + costs.operations(forward_operations(model, layer).first(whole ? 3 : 2)) + 2 * gather + (whole ? 2 : 1) * sum;
  return bound;
}

LayerBound block_bound(const GroupCosts& costs, const model::Config& model, int layer, plan::Recompute recompute, bool shared) {
  LayerBound bound = shared ? shared_block_bound(costs, model, layer, recompute) : whole_block_bound(costs, model, layer, recompute);
  if (recompute == plan::Recompute::selective) bound.recompute = costs.operations(std::array{Operation::block_again});
  return bound;
}

Bytes activation_bytes(const model::Config& model, const model::LayerShape& shape) {
  return shape.rows() * model.hidden * element_size(shape.precision);
}

}  // namespace

LayerBound bound_of_layer(const ProfileCost& cost, const model::Config& model, int layer, const model::LayerShape& shape,
                          plan::Recompute recompute, const std::string& device_type, const std::vector<Rank>& devices) {
  const GroupCosts costs{cost, model, shape, device_type, devices};
  const bool shared = shape.sequence_parallel;
  if (model.is_block(layer)) return block_bound(costs, model, layer, recompute, shared);
  const int width = model.embedding_width;
  const Seconds sum = shared ? costs.sum_to_pieces(width) : costs.sum_over_group(width), gather = shared ? costs.gather(width) : Seconds{};
  const auto begin = [&](Operation operation) { return shared ? costs.operations(std::array{operation}) : Seconds{}; };
  if (model.is_embedding(layer))
    return {costs.operations(forward_operations(model, layer)) + sum,
            begin(Operation::embedding_begin_backward) + gather + costs.operations(backward_operations(model, layer)),
            {},
            shared ? Seconds{} : costs.operations(input_half_operations(model, layer))};
  // The head's forward pass has no other stage behind it: it counts as backward work, where the chain through the stages ends.
  const Seconds before =
      begin(Operation::head_begin_forward) + gather + costs.operations(forward_operations(model, layer)) + costs.gather_stats() + sum;
  return {{},
          before + costs.operations(backward_operations(model, layer)),
          {},
          before + costs.operations(input_half_operations(model, layer)),
          costs.operations(weights_half_operations(model, layer))};
}

Bytes bound_of_arena(const model::Config& model, const Elements& elements, int first, int last, const model::LayerShape& shape,
                     plan::Recompute recompute, int in_flight) {
  const std::int64_t state = 4 * fp32_bytes + (shape.precision == Precision::fp32 ? 0 : element_size(shape.precision).count);
  Bytes sum = {elements.of_layers(first, last) * state};
  const bool keeps = recompute != plan::Recompute::full;
  const model::BlockLayout layout = model::block_layout(model, shape, recompute == plan::Recompute::selective);
  Bytes logits, of_a_block;  // alive at different times where a block's intermediates are recomputed
  for (int layer = first; layer < last; ++layer) {
    if (layer > 0) sum += activation_bytes(model, shape) * in_flight;
    if (model.is_head(layer)) logits = {shape.tokens() * model::logits_pitch(model, shape) * fp32_bytes};
    if (!model.is_block(layer)) continue;
    if (keeps) sum += layout.total * in_flight;
    of_a_block = keeps ? layout.again : layout.total;
  }
  return sum + std::max(logits, of_a_block);
}

}  // namespace flotilla::simulate
