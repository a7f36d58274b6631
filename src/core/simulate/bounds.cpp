#include "bounds.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::simulate {
namespace {

using model::Operation;
using program::Group;
using program::Op;

constexpr std::int64_t fp32_bytes = 4;

/// Costs of one layer on one replica.
class LayerCosts {
 public:
  LayerCosts(const ProfileCost& cost, const model::Config& model, const model::LayerShape& shape, const std::string& type,
             const std::vector<Rank>& devices)
      : cost_{cost}, model_{model}, shape_{shape}, type_{type}, group_{Group::Kind::tensor, devices} {}

  Seconds operations(std::initializer_list<Operation> list) const {
    Seconds sum;
    for (Operation operation : list) sum += cost_.operation(model_, type_, operation, shape_).time;
    return sum;
  }
  Seconds sum_over_group(int width) const {
    const Bytes element = element_size(shape_.precision);
    return collective(Op::all_reduce, shape_.tokens() * width * element, element);
  }
  Seconds gather_stats() const { return collective(Op::all_gather, {shape_.tokens() * 3 * fp32_bytes}, {fp32_bytes}); }

 private:
  Seconds collective(Op op, Bytes bytes, Bytes element) const {
    return group_.members.size() < 2 ? Seconds{0} : cost_.collective(op, group_, bytes, element).time;
  }
  const ProfileCost& cost_;
  const model::Config& model_;
  const model::LayerShape& shape_;
  const std::string& type_;
  Group group_;
};

LayerBound block_bound(const LayerCosts& costs, const model::Config& model, plan::Recompute recompute) {
  using enum Operation;
  const Seconds sum = costs.sum_over_group(model.hidden);
  LayerBound bound;
  bound.forward = costs.operations({attention_forward, mlp_forward, block_end_forward}) + 2 * sum;
  bound.backward = costs.operations({mlp_backward, attention_backward, block_begin_backward}) + 2 * sum;
  if (recompute != plan::Recompute::full) return bound;
  bound.recompute = costs.operations({attention_forward, mlp_forward}) + sum;
  if (model.norm == model::NormPlacement::post) bound.recompute += costs.operations({block_end_forward}) + sum;
  return bound;
}

Bytes activation_bytes(const model::Config& model, const model::LayerShape& shape) {
  return shape.tokens() * model.hidden * element_size(shape.precision);
}

/// One replica of a stage.
struct Work {
  Seconds least_forward, least_backward;  ///< of its smallest microbatch; the recomputation of its last block left out
  Seconds all;                            ///< of all microbatches
  Seconds last_backward;                  ///< of the last microbatch, recomputation included
};

class PlanBound {
 public:
  PlanBound(const Forecaster& forecaster, const ProfileCost& cost, const plan::Plan& plan)
      : forecaster_{forecaster}, cost_{cost}, plan_{plan}, tensors_{model::tensors(plan.model)} {}

  Seconds run() const {
    Seconds bound, fill, drain;
    const Seconds update = slowest_optimizer(), word = word_sum();
    for (const plan::Stage& stage : plan_.stages) {
      Seconds least_forward{std::numeric_limits<double>::infinity()}, least_backward = least_forward;
      const Seconds sums = gradient_sums(stage);
      for (const plan::Replica& replica : stage.replicas) {
        const Work work = work_of(stage, replica);
        bound = std::max({bound, fill + work.all + drain + word + update, fill + work.all - work.last_backward + sums + update});
        least_forward = std::min(least_forward, work.least_forward);
        least_backward = std::min(least_backward, work.least_backward);
      }
      fill += least_forward;
      drain += least_backward;
    }
    // Additions here and in the machine are in different orders; a part in 10^12 keeps rounding on the safe side.
    return bound * (1 - 1e-12);
  }

 private:
  LayerBound pass(const plan::Stage& stage, const plan::Replica& replica, int sequences) const {
    const model::LayerShape shape{sequences, plan_.length, replica.tensor_parallel, 0, plan_.precision};
    LayerBound sum;
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
      const LayerBound one = forecaster_.layer_bound(plan_.model, layer, shape, stage.recompute, replica.device_type, replica.devices);
      sum = {sum.forward + one.forward, sum.backward + one.backward, sum.recompute + one.recompute};
    }
    return sum;
  }

  Work work_of(const plan::Stage& stage, const plan::Replica& replica) const {
    const int full = std::min(replica.sequences, replica.quanta * plan_.quantum);
    const int microbatches = replica.microbatches(plan_.quantum), last = replica.sequences - (microbatches - 1) * full;
    const LayerBound most = pass(stage, replica, full), least = last == full ? most : pass(stage, replica, last);
    const auto total = [](const LayerBound& b) { return b.forward + b.backward + b.recompute; };
    Work work;
    // What is recomputed before the gradient arrives may hide in the wait, so the chain holds the backward pass alone.
    work.least_forward = std::min(most.forward, least.forward);
    work.least_backward = std::min(most.backward, least.backward);
    work.all = total(most) * (microbatches - 1) + total(least);
    work.last_backward = least.backward + least.recompute;
    return work;
  }

  Seconds slowest_optimizer() const {
    Seconds slowest;
    for (const plan::Stage& stage : plan_.stages)
      for (const plan::Replica& replica : stage.replicas) {
        const auto elements = elements_of(plan_.model, stage.first_layer, stage.last_layer, replica.tensor_parallel);
        slowest = std::max(slowest, forecaster_.optimizer_bound(elements, plan_.precision, replica.device_type));
      }
    return slowest;
  }

  std::vector<Rank> members(std::initializer_list<const plan::Stage*> stages) const {
    std::vector<Rank> ranks;
    for (const plan::Stage* stage : stages)
      for (const plan::Replica& replica : stage->replicas)
        if (!replica.devices.empty()) ranks.push_back(replica.devices.front());
    return ranks;
  }

  Seconds sum_over(const std::vector<Rank>& ranks, std::int64_t elements) const {
    if (ranks.size() < 2 || elements == 0) return {};
    return cost_.collective(Op::all_reduce, {Group::Kind::data, ranks}, {elements * fp32_bytes}, {fp32_bytes}).time;
  }

  /// The word table's gradient is whole only after the first stage's last operation.
  Seconds word_sum() const {
    const plan::Stage &first = plan_.stages.front(), &last = plan_.stages.back();
    const auto ranks = plan_.stages.size() == 1 ? members({&first}) : members({&first, &last});
    for (const auto& tensor : tensors_)
      if (tensor.tied_layer >= 0)
        return sum_over(ranks, plan::shard(tensor, first.replicas.front().tensor_parallel, 0).elements());
    return {};
  }

  Seconds gradient_sums(const plan::Stage& stage) const {
    std::vector<std::int64_t> elements(static_cast<std::size_t>(stage.last_layer - stage.first_layer));
    for (int t : plan::tensors_of_stage(tensors_, stage)) {
      const auto& tensor = tensors_[static_cast<std::size_t>(t)];
      if (tensor.tied_layer < 0)
        elements[static_cast<std::size_t>(tensor.layer - stage.first_layer)] +=
            plan::shard(tensor, stage.replicas.front().tensor_parallel, 0).elements();
    }
    const auto ranks = members({&stage});
    Seconds sum;
    std::int64_t before = -1;
    Seconds of_before;
    for (std::int64_t count : elements) {  // blocks are alike
      if (count != before) of_before = sum_over(ranks, before = count);
      sum += of_before;
    }
    return sum;
  }

  const Forecaster& forecaster_;
  const ProfileCost& cost_;
  const plan::Plan& plan_;
  std::vector<model::Tensor> tensors_;
};

}  // namespace

LayerBound bound_of_layer(const ProfileCost& cost, const model::Config& model, int layer, const model::LayerShape& shape,
                          plan::Recompute recompute, const std::string& device_type, const std::vector<Rank>& devices) {
  using enum Operation;
  const LayerCosts costs{cost, model, shape, device_type, devices};
  if (model.is_block(layer)) return block_bound(costs, model, recompute);
  if (model.is_embedding(layer))
    return {costs.operations({embedding_forward, embedding_end_forward}) + costs.sum_over_group(model.embedding_width),
            costs.operations({embedding_backward}), {}};
  // The head's forward pass has no other stage behind it: it counts as backward work, where the chain through the stages ends.
  return {{}, costs.operations({head_forward, head_loss, head_backward, head_end_backward}) + costs.gather_stats() +
                  costs.sum_over_group(model.embedding_width), {}};
}

std::int64_t elements_of(const model::Config& model, int first, int last, int tensor_parallel) {
  plan::Stage stage;
  stage.first_layer = first;
  stage.last_layer = last;
  const auto tensors = model::tensors(model);
  std::int64_t elements = 0;
  for (int t : plan::tensors_of_stage(tensors, stage)) elements += plan::shard(tensors[static_cast<std::size_t>(t)], tensor_parallel, 0).elements();
  return elements;
}

Bytes bound_of_arena(const model::Config& model, int first, int last, const model::LayerShape& shape, plan::Recompute recompute,
                     int in_flight) {
  const std::int64_t state = 4 * fp32_bytes + (shape.precision == Precision::fp32 ? 0 : element_size(shape.precision).count);
  Bytes sum = {elements_of(model, first, last, shape.tensor_parallel) * state};
  const bool keeps = recompute != plan::Recompute::full;
  const Bytes saved = model::block_layout(model, shape).total;
  Bytes logits, of_a_block;  // alive at different times where a block's intermediates are recomputed
  for (int layer = first; layer < last; ++layer) {
    if (layer > 0) sum += activation_bytes(model, shape) * in_flight;
    if (model.is_head(layer)) logits = {shape.tokens() * model::logits_pitch(model, shape) * fp32_bytes};
    if (!model.is_block(layer)) continue;
    if (keeps) sum += saved * in_flight;
    else of_a_block = saved;
  }
  return sum + std::max(logits, of_a_block);
}

Seconds bound_of_plan(const Forecaster& forecaster, const ProfileCost& cost, const plan::Plan& plan) {
  return PlanBound{forecaster, cost, plan}.run();
}

}  // namespace flotilla::simulate
