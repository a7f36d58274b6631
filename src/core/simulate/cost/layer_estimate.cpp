#include "layer_estimate.hpp"

#include <algorithm>

#include "layer_operations.hpp"

namespace flotilla::simulate {
namespace {

constexpr Bytes mebibyte{1 << 20};  // by which links are compared

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

/// Bytes that fused kernels of a member move: rows before a gathering are its own, what is gathered and what is summed it has whole.
double shared_traffic(const LayerWork& layer, model::Operation operation) {
  using enum model::Operation;
  model::LayerShape shape = layer.shape;
  shape.sequence_parallel = true;
  const auto bytes = [&](model::Operation of) { return static_cast<double>(model::traffic(layer.model, shape, of).count); };
  switch (operation) {
    case attention_forward: return bytes(operation) + bytes(attention_begin_forward);
    case mlp_forward: return bytes(operation) + bytes(mlp_begin_forward);
    case head_forward: return bytes(operation) + bytes(head_begin_forward);
    case mlp_backward: return bytes(operation) + bytes(mlp_begin_backward);
    case attention_backward: return bytes(operation) + bytes(attention_begin_backward);
    case embedding_backward: return bytes(operation) + bytes(embedding_begin_backward);
    default: return bytes(operation);
  }
}

OperationWork work_of(const LayerWork& layer, model::Operation operation, const Execution& execution) {
  if (!layer.sequence_parallel) return work_of(layer.model, layer.shape, operation, execution);
  model::LayerShape whole = layer.shape;
  whole.tensor_parallel = 1;
  whole.tensor_index = 0;
  OperationWork work = work_of(layer.model, whole, operation, execution);
  work.flops /= layer.shape.tensor_parallel;
  work.attention_flops /= layer.shape.tensor_parallel;
  const double parted = static_cast<double>(model::traffic(layer.model, whole, operation).count) / layer.shape.tensor_parallel;
  const double more = execution.traffic * (shared_traffic(layer, operation) - parted);
  work.traffic = {work.traffic.count / layer.shape.tensor_parallel + static_cast<std::int64_t>(more)};
  return work;
}

/// A step of a ring. One that leaves a board passes what joins boards, whose capacity all its devices share.
Seconds ring_step(const cluster::Profile& profile, const FitsByTypes& fits, const Execution& execution, const LayerWork& layer,
                  Bytes part) {
  const Seconds step = inside_node(profile, fits, layer.device_type, part);
  const bool leaves = execution.board > 0 && layer.shape.tensor_parallel > execution.board;
  return leaves ? std::max(step, inside_node(profile, fits, layer.device_type, {}) + part / execution.between_boards) : step;
}

Seconds sums(const cluster::Profile& profile, const FitsByTypes& fits, const Execution& execution, const LayerWork& layer, LayerSums sums) {
  const int members = layer.shape.tensor_parallel;
  if (members < 2 || sums.count == 0) return {};
  const Bytes all = layer.shape.tokens() * sums.width * element_size(layer.shape.precision);
  return 2.0 * sums.count * (members - 1) * ring_step(profile, fits, execution, layer, {all.count / members});
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
    if (link.level == cluster::LinkLevel::zone && !link.stated_zone && link.from == name && link.to == name) exit.link = &link;
  // What is stated goes before; of several zones the slowest counts, since layers are timed by type.
  const auto is_slower = [&](const cluster::Link& link) {
    return !exit.link || !exit.link->stated_zone || cluster::transfer_time(link, mebibyte) > cluster::transfer_time(*exit.link, mebibyte);
  };
  for (const auto& link : profile.links)
    if (link.stated_zone && (link.from.empty() || (link.from == name && link.to == name)) && is_slower(link)) exit.link = &link;
  return exit;
}

/// Every device gives each of the others of its group of experts as many of its tokens, each through some experts. Ranks of a
/// tensor-parallel group stand side by side, replicas beyond them: those of a node exchange over its links, the others over the node's
/// cards, which all its devices share.
Seconds all_to_all(const cluster::Profile& profile, const FitsByTypes& fits, const LayerWork& layer) {
  const int group = layer.shape.expert_parallel;
  if (group < 2) return {};
  const auto exit = exit_of(profile, layer.device_type);
  const std::int64_t tokens = layer.shape.tokens() / (layer.sequence_parallel ? layer.shape.tensor_parallel : 1);
  const Bytes all = tokens * layer.model.experts.per_token * layer.model.hidden * element_size(layer.shape.precision),
              each{all.count / group};
  const int beside = std::clamp(exit.devices / layer.shape.tensor_parallel, 1, group);
  const Seconds inside = (beside - 1) * inside_node(profile, fits, layer.device_type, each);
  if (beside == group || exit.link == nullptr) return inside;
  Route route;
  route.link = exit.link;
  const Bytes leaves{each.count * (group - beside)};
  return std::max(inside, route.time(leaves, Flows{exit.devices}));
}

/// Of a block's pass: there and back.
Seconds dealing(const cluster::Profile& profile, const FitsByTypes& fits, const LayerWork& layer) {
  return layer.model.has_experts(layer.layer) ? 2.0 * all_to_all(profile, fits, layer) : Seconds{0};
}

/// Gathers and sums of a pass over a tensor-parallel group: those around dense products, and those around experts. A dispatcher makes the
/// latter by itself, once for each expert that a token goes through, before and behind the experts' products: none runs beside them
/// (Megatron-Core, extensions/transformer_engine.py: "The comms between TP and EP group is explicitly handled by MoE token dispatcher", so
/// the products' own are disabled), and what it gathered is kept.
struct PassSums {
  LayerSums dense, experts;
};

PassSums sums_of_pass(const LayerWork& layer, bool backward) {
  const LayerSums all = backward ? backward_sums(layer.model, layer.layer) : forward_sums(layer.model, layer.layer);
  if (!layer.model.has_experts(layer.layer)) return {all, {}};
  const model::Experts& experts = layer.model.experts;
  return {{experts.shared_width > 0 ? all.count : all.count - 1, all.width}, {experts.per_token, all.width}};
}

/// With sequence parallelism a backward pass gathers the inputs of its products again, under the products for the gradients of activations;
/// of what is hidden that way about half shows, because both want the memory (Korthikanti et al. 2022, section 4.2.2 and table 4: the
/// backward pass gains 0.1 ms by what the forward pass gains 0.5 ms by).
constexpr double gather_visible = 0.5;

Seconds gathers_again(const cluster::Profile& profile, const FitsByTypes& fits, const Execution& execution, const LayerWork& layer,
                      LayerSums of_pass) {
  return layer.sequence_parallel ? 0.5 * gather_visible * sums(profile, fits, execution, layer, of_pass) : Seconds{0};
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
  const auto* type = cluster::find_type(profile, layer.device_type);
  const Seconds library = type ? type->efficiency.launch : Seconds{};
  PassTime time;
  for (auto operation : backward ? backward_operations(layer.model, layer.layer) : forward_operations(layer.model, layer.layer)) {
    const OperationWork work = work_of(layer, operation, execution);
    time.device += roofline(profile, layer.device_type, layer.shape.precision, work);
    time.host += static_cast<double>(work.kernels) * execution.host + static_cast<double>(work.started) * library;
  }
  if (layer.model.is_embedding(layer.layer) && !backward) time.host += execution.microbatch_host;
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

/// Where every second product of a block is kept, in the order of queries, keys, values, output, gate, up and down: those of keys, output
/// and (with a gate) up, and all that stands between products. Kept attention is not repeated. Group members gather again, sums are kept.
Cost repeated_between_products(const cluster::Profile& profile, const FitsByTypes& fits, const Execution& execution,
                               const LayerWork& layer) {
  const auto& shape = layer.shape;
  const double rows = static_cast<double>(shape.tokens()), heads = model::local_heads(layer.model, shape) * layer.model.head_size();
  const double keys = (static_cast<double>(model::qkv_width(layer.model, shape)) - heads) / 2;
  const double up = layer.model.gated() ? model::local_columns(layer.model, shape) : 0;
  const double speed = execution.product_share * (execution.narrow ? execution.narrow->speed : 1);
  OperationWork work;
  work.flops = 2 * rows * layer.model.hidden * (keys + heads + up) / speed;
  work.products = up > 0 ? 3 : 2;
  for (auto operation : forward_operations(layer.model, layer.layer)) {
    const OperationWork whole = work_of(layer, operation, execution);
    work.traffic += whole.traffic;
    work.kernels += whole.kernels;
  }
  const Seconds gathers = 0.5 * exposed(execution, layer) * sums(profile, fits, execution, layer, sums_of_pass(layer, false).dense);
  const Seconds device = roofline(profile, layer.device_type, shape.precision, work);
  return {device + gathers, error_of(profile, layer), true};
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
  const PassSums of_pass = sums_of_pass(layer, backward);
  const Seconds gathers = backward ? gathers_again(profile, fits, execution, layer, of_pass.dense) : Seconds{0};
  const PassTime time = operations(profile, execution, layer, backward);
  const Seconds collectives = exposed(execution, layer) * (sums(profile, fits, execution, layer, of_pass.dense) + gathers) +
                              sums(profile, fits, execution, layer, of_pass.experts) + dealing(profile, fits, layer);
  const Seconds moving = time.device + collectives;
  if (!execution.waits_for_kernels && time.host > moving) return {time.host, execution.host_error, true};
  const Seconds waits = execution.waits_for_kernels ? time.host : Seconds{0}, all = moving + waits;
  if (!(all.value > 0)) return {};
  const Seconds error = time.device * error_of(profile, layer) + collectives * link_error_of(profile, layer.device_type);
  return {all, (error + waits * execution.host_error) / all, true};
}

Cost estimated_recompute(const cluster::Profile& profile, const FitsByTypes& fits, const Execution& execution, const LayerWork& layer,
                         plan::Recompute recompute) {
  if (recompute == plan::Recompute::none || !layer.model.is_block(layer.layer)) return {};
  if (recompute == plan::Recompute::full)
    return without_last_product(profile, execution, layer, estimated_pass(profile, fits, execution, layer, false));
  if (execution.keeps_other_products) return repeated_between_products(profile, fits, execution, layer);
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
  execution.keeps_other_products = kernels.keeps_other_products;
  execution.overlaps_tensor = runtime.overlaps_tensor;
  execution.tensor_visible = runtime.tensor_visible;
  execution.host_error = runtime.host_error;
  execution.fused_scores = kernels.fused_scores;
  execution.microbatch_host = runtime.microbatch_host;
  execution.waits_for_kernels = runtime.waits_for_kernels;
  execution.board = runtime.board;
  execution.between_boards = runtime.between_boards;
  execution.context = runtime.context;
  execution.groups_experts = runtime.groups_experts;
  if (precision != Precision::fp32) execution.added = runtime.added_half;
  return execution;
}

plan::Recompute recompute_of(const plan::Plan& plan, int layer) {
  for (const auto& stage : plan.stages)
    if (stage.first_layer <= layer && layer < stage.last_layer) return stage.recompute;
  return plan::Recompute::none;
}

}  // namespace flotilla::simulate
