#include "layer_estimate.hpp"

#include <algorithm>

#include "layer_operations.hpp"

namespace flotilla::simulate {
namespace {

/// Between two devices of one type in a node; nothing when the profile does not say.
Seconds inside_node(const cluster::Profile& profile, const FitsByTypes& fits, const std::string& type, Bytes size) {
  const cluster::Device a{Rank{0}, type, "node", "", 0, 1}, b{Rank{1}, type, "node", "", 1, 1};
  Route route;
  route.inside_host = true;
  route.fits = fits.between(a, b);
  for (const auto& link : profile.links)
    if (link.level == cluster::LinkLevel::node && link.from == type && link.to == type) route.link = &link;
  return route.fits.empty() && !route.link ? Seconds{0} : route.time(size, 1);
}

OperationWork work_of(const LayerWork& layer, model::Operation operation, const Execution& execution) {
  if (!layer.sequence_parallel) return work_of(layer.model, layer.shape, operation, execution);
  model::LayerShape whole = layer.shape;
  whole.tensor_parallel = 1;
  whole.tensor_index = 0;
  OperationWork work = work_of(layer.model, whole, operation, execution);
  work.flops /= layer.shape.tensor_parallel;
  work.attention_flops /= layer.shape.tensor_parallel;
  work.traffic = {work.traffic.count / layer.shape.tensor_parallel};
  return work;
}

Seconds sums(const cluster::Profile& profile, const FitsByTypes& fits, const LayerWork& layer, LayerSums sums) {
  const int members = layer.shape.tensor_parallel;
  if (members < 2 || sums.count == 0) return {};
  const Bytes all = layer.shape.tokens() * sums.width * element_size(layer.shape.precision);
  return 2.0 * sums.count * (members - 1) * inside_node(profile, fits, layer.device_type, {all.count / members});
}

/// Over a card between nodes; nothing where the profile does not say.
struct NodeExit {
  const cluster::Link* link = nullptr;
  int devices = 1;  ///< of a node
};

NodeExit exit_of(const cluster::Profile& profile, const std::string& name) {
  const auto* type = cluster::find_type(profile, name);
  NodeExit exit{nullptr, type != nullptr && type->per_node > 0 ? type->per_node : 1};
  for (const auto& link : profile.links)
    if (link.level == cluster::LinkLevel::zone && link.from == name && link.to == name) exit.link = &link;
  return exit;
}

/// Every device gives each of the others of its group of experts as many of its tokens, each through some experts. Ranks of a
/// tensor-parallel group stand side by side, replicas beyond them: those of a node exchange over its links, the others over the node's
/// cards, which all its devices share.
Seconds all_to_all(const cluster::Profile& profile, const FitsByTypes& fits, const LayerWork& layer, const program::Experts& experts) {
  if (experts.group < 2) return {};
  const auto exit = exit_of(profile, layer.device_type);
  const std::int64_t tokens = layer.shape.tokens() / (layer.sequence_parallel ? layer.shape.tensor_parallel : 1);
  const Bytes all = tokens * experts.per_token * layer.model.hidden * element_size(layer.shape.precision), each{all.count / experts.group};
  const int beside = std::clamp(exit.devices / layer.shape.tensor_parallel, 1, experts.group);
  const Seconds inside = (beside - 1) * inside_node(profile, fits, layer.device_type, each);
  if (beside == experts.group || exit.link == nullptr) return inside;
  Route route;
  route.link = exit.link;
  const Bytes leaves{each.count * (experts.group - beside)};
  return std::max(inside, route.time(leaves, Flows{exit.devices}));
}

/// Of a block's pass: there and back.
Seconds dealing(const cluster::Profile& profile, const FitsByTypes& fits, const Execution& execution, const LayerWork& layer) {
  return execution.experts && layer.model.is_block(layer.layer) ? 2.0 * all_to_all(profile, fits, layer, *execution.experts) : Seconds{0};
}

/// Tokens are gathered and summed over a tensor-parallel group once for each expert that they go through.
LayerSums through_experts(LayerSums sums, const Execution& execution, const LayerWork& layer) {
  if (execution.experts && layer.model.is_block(layer.layer)) sums.count += execution.experts->per_token - 1;
  return sums;
}

/// With sequence parallelism a backward pass gathers the inputs of its products again, under the products for the gradients of activations;
/// of what is hidden that way about half shows, because both want the memory (Korthikanti et al. 2022, section 4.2.2 and table 4: the
/// backward pass gains 0.1 ms by what the forward pass gains 0.5 ms by).
constexpr double gather_visible = 0.5;

Seconds gathers_again(const cluster::Profile& profile, const FitsByTypes& fits, const LayerWork& layer, LayerSums of_pass) {
  return layer.sequence_parallel ? 0.5 * gather_visible * sums(profile, fits, layer, of_pass) : Seconds{0};
}

/// Of a layer's collectives, what no product hides: they go part by part of the members, and the first part has no product before it.
double exposed(const Execution& execution, const LayerWork& layer) {
  if (!execution.overlaps_tensor || !layer.sequence_parallel) return 1;
  const double first = 1.0 / layer.shape.tensor_parallel;
  return first + (1 - first) * execution.tensor_visible;
}

/// A pass's operations: on the device, one after the other, and on the host, which starts their kernels and runs ahead where it can.
struct PassTime {
  Seconds device, host;
};

PassTime operations(const cluster::Profile& profile, const Execution& execution, const LayerWork& layer, bool backward) {
  PassTime time;
  for (auto operation : backward ? backward_operations(layer.model, layer.layer) : forward_operations(layer.model, layer.layer)) {
    const OperationWork work = work_of(layer, operation, execution);
    time.device += roofline(profile, layer.device_type, layer.shape.precision, work);
    time.host += static_cast<double>(work.kernels) * execution.host;
  }
  return time;
}

double error_of(const cluster::Profile& profile, const LayerWork& layer) {
  const auto* type = cluster::find_type(profile, layer.device_type);
  const cluster::Efficiency efficiency = type ? type->efficiency : cluster::Efficiency{};
  return layer.shape.precision == Precision::fp32 ? efficiency.error : efficiency.error_16;
}

/// Of transfers between two devices of one type in a node.
double link_error_of(const cluster::Profile& profile, const std::string& type) {
  for (const auto& link : profile.links)
    if (link.level == cluster::LinkLevel::node && link.from == type && link.to == type) return link.relative_scatter;
  return 0;
}

/// Attention without the products around it: what storing the scores costs beside the products of queries, keys and values.
OperationWork scores_work(const LayerWork& layer, const Execution& execution) {
  const auto& shape = layer.shape;
  const double square = static_cast<double>(shape.tokens()) * shape.length * model::local_heads(layer.model, shape);
  const double passes = execution.score_passes_forward;
  const double traffic = passes * square * static_cast<double>(element_size(shape.precision).count);
  return {4 * square * layer.model.head_size(), 2, {static_cast<std::int64_t>(traffic)}, 6};
}

/// A block's forward pass, less its last product where the runtime leaves that out.
Cost without_last_product(const cluster::Profile& profile, const Execution& execution, const LayerWork& layer, Cost pass) {
  if (!execution.early_stop) return pass;
  OperationWork last = work_of(layer, model::Operation::mlp_forward, execution);
  const double down = layer.model.gated() ? 1.0 / 3 : 1.0 / 2;
  last.flops *= down;
  last.products = 1;
  last.traffic = {};
  last.kernels = 0;
  pass.time = std::max(Seconds{0}, pass.time - roofline(profile, layer.device_type, layer.shape.precision, last));
  return pass;
}

}  // namespace

Cost estimated_pass(const cluster::Profile& profile, const FitsByTypes& fits, const Execution& execution, const LayerWork& layer,
                    bool backward) {
  const LayerSums of_pass =
      through_experts(backward ? backward_sums(layer.model, layer.layer) : forward_sums(layer.model, layer.layer), execution, layer);
  const Seconds gathers = backward ? gathers_again(profile, fits, layer, of_pass) : Seconds{0};
  const PassTime time = operations(profile, execution, layer, backward);
  const Seconds collectives =
      exposed(execution, layer) * (sums(profile, fits, layer, of_pass) + gathers) + dealing(profile, fits, execution, layer);
  const Seconds all = time.device + collectives;
  if (time.host > all) return {time.host, execution.host_error, true};
  if (!(all.value > 0)) return {};
  const Seconds error = time.device * error_of(profile, layer) + collectives * link_error_of(profile, layer.device_type);
  return {all, error / all, true};
}

Cost estimated_recompute(const cluster::Profile& profile, const FitsByTypes& fits, const Execution& execution, const LayerWork& layer,
                         plan::Recompute recompute) {
  if (recompute == plan::Recompute::none || !layer.model.is_block(layer.layer)) return {};
  if (recompute == plan::Recompute::full)
    return without_last_product(profile, execution, layer, estimated_pass(profile, fits, execution, layer, false));
  return {roofline(profile, layer.device_type, layer.shape.precision, scores_work(layer, execution), execution.host),
          error_of(profile, layer), true};
}

Execution execution_of(const program::LayerRuntime& runtime, Precision precision) {
  const auto& kernels = runtime.kernels(precision);
  Execution execution;
  execution.score_passes_forward = kernels.score_passes_forward;
  execution.score_passes_backward = kernels.score_passes_backward;
  execution.host = kernels.host;
  execution.fused = kernels.fused;
  execution.attention_share = kernels.attention_share;
  execution.product_share = kernels.product_share;
  execution.traffic = kernels.traffic;
  execution.narrow = runtime.narrow;
  execution.early_stop = kernels.early_stop;
  execution.overlaps_tensor = runtime.overlaps_tensor;
  execution.tensor_visible = runtime.tensor_visible;
  execution.host_error = runtime.host_error;
  execution.context = runtime.context;
  execution.experts = runtime.experts;
  return execution;
}

plan::Recompute recompute_of(const plan::Plan& plan, int layer) {
  for (const auto& stage : plan.stages)
    if (stage.first_layer <= layer && layer < stage.last_layer) return stage.recompute;
  return plan::Recompute::none;
}

}  // namespace flotilla::simulate
