#include "operation_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/cluster/product_peak.hpp"

namespace flotilla::simulate {
namespace {

bool is_time(Seconds s) { return std::isfinite(s.value) && s.value > 0; }

/// Scatter of the nearest size that was measured.
double scatter_of(const cluster::Profile& profile, const std::string& type, const std::string& operation, int degree,
                  const model::LayerShape& shape) {
  const cluster::OperationTime* nearest = nullptr;
  const auto distance = [&](const cluster::OperationTime& t) { return std::abs(std::int64_t{t.sequences} * t.length - shape.tokens()); };
  for (const auto& t : profile.operation_times)
    if (t.tensor_parallel == degree && t.precision == shape.precision && t.operation == operation && t.device_type == type &&
        (!nearest || distance(t) < distance(*nearest)))
      nearest = &t;
  return nearest && std::isfinite(nearest->relative_scatter) ? std::max(0.0, nearest->relative_scatter) : 0;
}

/// Kernels and matrix products of an operation. `fused`: norm, product with its bias, attention, activation, sum with its residual each one
/// kernel, as cuDNN and cuBLASLt offer them; `separate`: element-wise steps by themselves, as PyTorch runs Megatron's layers eagerly.
/// `scores`: of these, what one attention kernel takes the place of; `ring`: more for each further part of the sequence that context
/// parallelism brings in (messages, the kernel again, correction of what was summed).
struct Makeup {
  int fused, separate, products, scores = 0, ring = 0;
};
constexpr std::array<Makeup, model::all_operation_count> makeups{{
    {1, 2, 0},         // embedding_forward
    {2, 4, 1},         // embedding_end_forward: projection, sum with the position
    {4, 14, 4, 5, 5},  // attention_forward: norm, qkv, attention (scores, values), out
    {4, 10, 2},        // mlp_forward: sum and norm, up, activation, down
    {1, 4, 0},         // block_end_forward
    {2, 3, 1},         // head_forward: norm, logits
    {1, 6, 0},         // head_loss
    {3, 8, 2},         // head_backward
    {3, 4, 2},         // head_end_backward
    {7, 12, 4},        // mlp_backward: two products each for down and up, activation, biases
    {8, 20, 8, 6, 8},  // attention_backward: the same for out and qkv, attention's four gradients
    {1, 4, 0},         // block_begin_backward
    {2, 4, 2},         // embedding_backward
    {3, 8, 0},         // block_again: two norms, activation
    {2, 3, 0},         // attention_begin_forward: norm, copy
    {2, 5, 0},         // mlp_begin_forward: sum and norm, copy
    {2, 3, 1},         // head_begin_forward
    {3, 5, 0},         // mlp_begin_backward: norm or mask, bias, copy
    {4, 6, 0},         // attention_begin_backward
    {2, 4, 2},         // embedding_begin_backward
    {2, 2, 0},         // mlp_begin_weights: copies
    {2, 2, 0},         // attention_begin_weights
    {5, 10, 2},        // mlp_backward_input: activation and biases go with the inputs
    {2, 2, 2},         // mlp_backward_weights
    {5, 17, 6},        // attention_backward_input
    {3, 3, 2},         // attention_backward_weights: qkv's bias goes with the weights
    {2, 7, 1},         // head_backward_input
    {1, 1, 1},         // head_backward_weights
}};

/// Megatron's fused kernel scales, masks and normalizes a few matrices of scores at a time, one for each warp of a block of threads. What
/// it cannot take is converted to fp32, scaled, masked, normalized and converted back: kernels in its place, and times more that the
/// scores cross the memory.
struct StepByStep {
  int kernels;
  double passes;
};
constexpr StepByStep forward_steps{4, 12}, backward_steps{4, 10};

bool takes_steps(const model::Config& model, const model::LayerShape& shape, const Execution& execution) {
  return execution.fused_scores > 0 && shape.precision != Precision::fp32 &&
         shape.sequences * model::local_heads(model, shape) % execution.fused_scores != 0;
}

int kernels_of(const Makeup& makeup, bool stores, const Execution& execution) {
  const int ring = makeup.ring * (execution.context - 1);
  if (stores) return makeup.separate + ring;
  return ring + (execution.fused ? makeup.fused : makeup.separate - makeup.scores);
}

/// Matrix units of half precision load rows of 16 bytes (NVIDIA's guide to matrix products): heads of other widths go without them.
bool is_unaligned(const model::Config& model, const model::LayerShape& shape) {
  constexpr int aligned = 8;
  return shape.precision != Precision::fp32 && model.head_size() % aligned != 0;
}

/// Attention that stores its scores: separate products over the whole square, which its backward pass has not to compute again.
void store_scores(OperationWork& work, const model::Config& model, const model::LayerShape& shape, bool backward,
                  const Execution& execution) {
  const double square = static_cast<double>(shape.tokens()) * shape.length, heads = model::local_heads(model, shape);
  const double product = 2 * square * heads * model.head_size(),
               causal = 2 * model::attention_pairs(model, shape) * heads * model.head_size();
  const double products = (backward ? 4 : 2) * product;
  work.flops += products - (backward ? 5 : 2) * causal;
  if (is_unaligned(model, shape)) work.flops -= products, work.plain_flops = products;
  double passes = backward ? execution.score_passes_backward : execution.score_passes_forward;
  if (takes_steps(model, shape, execution)) {
    const StepByStep& steps = backward ? backward_steps : forward_steps;
    passes += steps.passes;
    work.kernels += steps.kernels;
  }
  work.traffic += {static_cast<std::int64_t>(passes * square * heads) * element_size(shape.precision).count};
}

/// Products of the attention kernel: two forward, five backward, of which one repeats the scores (Dao 2023).
double attention_products(const model::Config& model, const model::LayerShape& shape, bool backward) {
  const double heads = model::local_heads(model, shape);
  return (backward ? 5 : 2) * 2 * model::attention_pairs(model, shape) * heads * model.head_size();
}

/// The attention kernel at its own rate. With context parallelism its products go over the whole sequence: a rank holds a part of the
/// queries, dealt so that all have as many keys to see.
void set_attention_apart(OperationWork& work, const model::Config& model, const model::LayerShape& shape, bool backward,
                         const Execution& execution) {
  const double products = attention_products(model, shape, backward);
  work.flops += products * (execution.context - 1);
  if (!(execution.attention_share > 0)) return;
  work.attention_flops = products * execution.context;
  work.attention_share = execution.attention_share;
  work.flops -= work.attention_flops;
  work.products -= std::min(work.products, backward ? 4 : 2);
}

/// Feed-forward layers of a block that this rank executes one after the other: its experts, together where the runtime groups them, and the
/// shared layer; or one. And copies of a token that go through them. Means over the blocks.
struct Layers {
  double count = 1, copies = 1;
};

double expert_part(const model::Config& model) { return static_cast<double>(model.expert_blocks()) / model.blocks; }

Layers feed_forward_layers(const model::Config& model, const model::LayerShape& shape, const Execution& execution) {
  const int shared = model.experts.shared_width > 0 ? 1 : 0, here = model.experts.on_each_of(shape.expert_parallel);
  const int more = (execution.groups_experts ? std::min(1, here) : here) + shared - 1, copies = model.experts.per_token + shared - 1;
  return {1 + expert_part(model) * more, 1 + expert_part(model) * copies};
}

int rounded(double number) { return static_cast<int>(std::lround(number)); }

/// Tensors that a block's linear products convert to fewer bits, and their elements: inputs in the forward pass, gradients of outputs in
/// the backward pass. Weights are converted once in a step, inputs are kept as converted.
struct Converted {
  double elements = 0;
  int tensors = 0;
};

Converted converted(const model::Config& model, const model::LayerShape& shape, model::Operation operation, const Execution& execution) {
  const double rows = static_cast<double>(shape.tokens()), width = model.hidden;
  const double heads = static_cast<double>(model::local_heads(model, shape)) * model.head_size();
  const Layers layers = feed_forward_layers(model, shape, execution);
  const int pairs = rounded(2 * layers.count);
  switch (operation) {
    case model::Operation::attention_forward: return {rows * (width + heads), 2};
    case model::Operation::mlp_forward: return {rows * (width * layers.copies + model::local_columns(model, shape)), pairs};
    case model::Operation::attention_backward: return {rows * (width + static_cast<double>(model::qkv_width(model, shape))), 2};
    case model::Operation::mlp_backward:
      return {rows * (width * layers.copies + static_cast<double>(model::up_width(model, shape))), pairs};
    default: return {};
  }
}

/// Linear products at the rate of narrower operands, and their conversion. `attention`: of the work's FLOPs, what is no linear product.
void narrow_products(OperationWork& work, const model::Config& model, const model::LayerShape& shape, model::Operation operation,
                     const Execution& execution, double attention) {
  const Converted conversion = converted(model, shape, operation, execution);
  const program::NarrowProducts& narrow = *execution.narrow;
  if (conversion.tensors == 0) return;
  work.flops = attention + (work.flops - attention) / narrow.speed;
  work.traffic += {static_cast<std::int64_t>(conversion.elements * narrow.cast_bytes)};
  work.kernels += conversion.tensors * narrow.cast_kernels;
}

/// Kernels of a router and of dealing tokens to experts and back: product, softmax, choice, a map of the chosen (2), counts, their exchange
/// and copy to the host (2), order (2), rows, probabilities, their exchanges (2); then exchange, order, weights, zeros, sum, and the loss
/// that balances experts (Megatron-Core's dispatcher by all-to-all). As many again for their gradients.
constexpr int router_kernels = 20;

/// Kernels of a feed-forward layer that each expert has of its own: products, activation, and sums into the gradients of its weights. Norm,
/// biases, dropout and the sum with the residual are the block's.
int kernels_of_expert(model::Operation operation, bool fused) {
  switch (operation) {
    case model::Operation::mlp_forward: return fused ? 3 : 4;
    case model::Operation::mlp_backward_input: return 3;
    case model::Operation::mlp_backward_weights: return fused ? 2 : 4;
    default: return fused ? 5 : 7;
  }
}

bool is_feed_forward(model::Operation operation) {
  return model::whole_of(operation).value_or(operation) == model::Operation::mlp_backward || operation == model::Operation::mlp_forward;
}

/// Rows that products compute for nothing: an expert's are any number, so its last tile of 128 (cuBLAS, CUTLASS) is half full in the mean.
constexpr double idle_rows = 64;

/// FLOPs of those rows in a pass: of all experts here. Products for the gradients of weights sum over rows, in steps that are finer.
double idle_flops(const model::Config& model, const model::LayerShape& shape, model::Operation operation) {
  if (operation == model::Operation::mlp_backward_weights) return 0;
  const double weights = static_cast<double>(model.experts.width) / shape.tensor_parallel * model.hidden * (model.gated() ? 3 : 2);
  return expert_part(model) * 2 * idle_rows * model.experts.on_each_of(shape.expert_parallel) * weights;
}

/// The feed-forward layer of `dense` as experts: products and kernels of each that is here, and of the router. Grouped, the products of all
/// experts fill the device as one would.
void repeat_by_expert(OperationWork& work, const model::Config& model, const model::LayerShape& shape, model::Operation operation,
                      const Execution& execution) {
  const double layers = feed_forward_layers(model, shape, execution).count, part = expert_part(model);
  work.flops += idle_flops(model, shape, operation);
  if (execution.groups_experts) work.started = rounded(part * work.products * (model.experts.on_each_of(shape.expert_parallel) - 1));
  work.products = rounded(work.products * layers + part);
  work.kernels = rounded(work.kernels + (layers - 1) * kernels_of_expert(operation, execution.fused) + part * router_kernels);
}

/// Seconds of matrix products at what products of their size reach of the peak.
double product_seconds(const cluster::Efficiency& e, FlopsPerSecond peak, Precision precision, const OperationWork& work) {
  if (work.flops <= 0) return 0;
  const bool single = precision == Precision::fp32;
  const double one = work.flops / std::max(1, work.products), half = single ? e.half : e.half_16;
  return work.flops / (peak.value * (single ? e.matrix : e.matrix_16) * (one / (one + half)));
}

double error_of(const cluster::Profile& profile, const std::string& type, Precision precision) {
  const auto* about = cluster::find_type(profile, type);
  const cluster::Efficiency efficiency = about ? about->efficiency : cluster::Efficiency{};
  return precision == Precision::fp32 ? efficiency.error : efficiency.error_16;
}

Seconds roofline_of(const cluster::Profile& profile, const model::Config& model, const std::string& type, model::Operation operation,
                    const model::LayerShape& shape, const Execution& execution) {
  return roofline(profile, type, shape.precision, work_of(model, shape, operation, execution), execution.host);
}

/// How far the time may be off where the size was not measured: to the ends between which it lies. The lower one is no less than the
/// device's own measured peak and memory rate allow.
double size_error(const cluster::Profile& profile, const model::Config& model, const std::string& type, model::Operation operation,
                  const model::LayerShape& shape, const Execution& execution, const cluster::SizedTime& sized) {
  if (sized.least == sized.most) return 0;
  const cluster::DeviceType* about = cluster::find_type(profile, type);
  const bool has_rates = about && about->memory_bandwidth.value > 0 && cluster::product_peak(*about, shape.precision).value > 0;
  const Seconds ideal = has_rates ? roofline_of(profile, model, type, operation, shape, execution) : Seconds{};
  const Seconds least = std::min(sized.time, std::max(sized.least, ideal));
  return std::max(sized.time - least, sized.most - sized.time) / sized.time;
}

/// Degrees measured for this operation, nearest to the wanted one first (by ratio, the smaller one of two).
std::vector<int> measured_degrees(const cluster::Profile& profile, const std::string& type, const std::string& operation,
                                  const model::LayerShape& shape) {
  std::set<int> degrees;
  for (const auto& t : profile.operation_times)
    if (t.precision == shape.precision && t.operation == operation && t.device_type == type && t.tensor_parallel >= 1)
      degrees.insert(t.tensor_parallel);
  std::vector<int> order{degrees.begin(), degrees.end()};
  const auto distance = [&](int degree) { return std::abs(std::log(static_cast<double>(degree) / shape.tensor_parallel)); };
  std::ranges::stable_sort(order, {}, distance);
  return order;
}

std::optional<Cost> scaled_cost(const cluster::Profile& profile, const model::Config& model, const std::string& type,
                                model::Operation operation, const model::LayerShape& shape, const Execution& execution) {
  const std::string name{model::to_string(operation)};
  const cluster::DeviceType* about = cluster::find_type(profile, type);
  if (!about || !(about->memory_bandwidth.value > 0)) return std::nullopt;
  for (int degree : measured_degrees(profile, type, name, shape)) {
    if (degree > model::largest_tensor_parallel(model)) continue;
    model::LayerShape there = shape;
    there.tensor_parallel = degree;
    there.tensor_index = 0;
    const auto measured = cluster::sized_operation_time(profile, type, name, degree, shape.sequences, shape.length, shape.precision);
    const Seconds ideal = roofline_of(profile, model, type, operation, there, execution),
                  wanted = roofline_of(profile, model, type, operation, shape, execution);
    if (measured && is_time(measured->time) && is_time(ideal) && is_time(wanted))
      return Cost{measured->time * (wanted / ideal),
                  scaled_error + scatter_of(profile, type, name, degree, shape) +
                      size_error(profile, model, type, operation, there, execution, *measured),
                  true};
  }
  return std::nullopt;
}

}  // namespace

OperationWork work_of(const model::Config& model, const model::LayerShape& shape, model::Operation operation, const Execution& execution) {
  const bool forward = operation == model::Operation::attention_forward, backward = operation == model::Operation::attention_backward;
  const bool stores = execution.score_passes_forward > 0 || execution.score_passes_backward > 0;
  const Makeup& makeup = makeups[static_cast<std::size_t>(operation)];
  OperationWork work{model::flops(model, shape, operation), makeup.products, model::traffic(model, shape, operation),
                     kernels_of(makeup, stores, execution)};
  if (!stores && (forward || backward)) set_attention_apart(work, model, shape, backward, execution);
  if (model.experts.on() && is_feed_forward(operation)) repeat_by_expert(work, model, shape, operation, execution);
  work.flops /= execution.product_share;
  const double summed = model::summed_weights(model, shape, operation) * (static_cast<double>(execution.added.count) - 8);
  work.traffic = {static_cast<std::int64_t>((static_cast<double>(work.traffic.count) + summed) * execution.traffic)};
  if (execution.narrow) {
    const bool apart = work.attention_flops > 0 || !(forward || backward);
    const double attention = attention_products(model, shape, backward) * (stores ? 1 : execution.context) / execution.product_share;
    narrow_products(work, model, shape, operation, execution, apart ? 0 : attention);
  }
  if (stores && (forward || backward)) store_scores(work, model, shape, backward, execution);
  return work;
}

Seconds roofline(const cluster::Profile& profile, const std::string& device_type, Precision precision, const OperationWork& work,
                 Seconds host) {
  const cluster::DeviceType* type = cluster::find_type(profile, device_type);
  FLOTILLA_REQUIRE(type, ErrorKind::bad_input, "the cluster profile has neither times nor peak rates of device type ",
                   in_quotes(device_type), "; measure it with 'flotilla probe'");
  const FlopsPerSecond peak = cluster::product_peak(*type, precision);
  const auto usable = [](double rate) { return std::isfinite(rate) && rate > 0; };
  FLOTILLA_REQUIRE(work.flops <= 0 || usable(peak.value) || precision != Precision::bf16 || !usable(type->peak_fp16.value),
                   ErrorKind::bad_input, device_type, " has no bf16; it has fp16 (training.precision)");
  FLOTILLA_REQUIRE(usable(type->memory_bandwidth.value) && (work.flops <= 0 || usable(peak.value)), ErrorKind::bad_input,
                   "the cluster profile has no measured time and no peak rate in ", to_string(precision), " or no memory bandwidth of ",
                   in_quotes(device_type), "; measure it with 'flotilla probe'");
  const cluster::Efficiency& e = type->efficiency;
  const double attention = work.attention_flops > 0 ? work.attention_flops / (peak.value * work.attention_share) : 0;
  const double plain = work.plain_flops > 0 ? work.plain_flops / (cluster::product_peak(*type, Precision::fp32).value * e.matrix) : 0;
  const double products = product_seconds(e, peak, precision, work) + attention + plain,
               streaming = (work.traffic / type->memory_bandwidth).value / e.memory;
  const double both = std::max(products, streaming) + (1 - e.overlap) * std::min(products, streaming);
  return {std::max(both, work.kernels * std::max(e.launch, host).value + work.started * e.launch.value)};
}

Cost stream_cost(const cluster::Profile& profile, const std::string& device_type, Bytes traffic) {
  return {roofline(profile, device_type, Precision::fp32, {0, 0, traffic, 1}), error_of(profile, device_type, Precision::fp32), true};
}

Cost operation_cost(const cluster::Profile& profile, const model::Config& model, const std::string& device_type, model::Operation operation,
                    const model::LayerShape& shape, const Execution& execution) {
  const std::string name{model::to_string(operation)};
  const auto measured =
      cluster::sized_operation_time(profile, device_type, name, shape.tensor_parallel, shape.sequences, shape.length, shape.precision);
  if (measured && is_time(measured->time))
    return {measured->time,
            scatter_of(profile, device_type, name, shape.tensor_parallel, shape) +
                size_error(profile, model, device_type, operation, shape, execution, *measured),
            false};
  if (const auto scaled = scaled_cost(profile, model, device_type, operation, shape, execution)) return *scaled;
  return {roofline_of(profile, model, device_type, operation, shape, execution), error_of(profile, device_type, shape.precision), true};
}

bool is_measured(const cluster::Profile& profile, const std::string& device_type, model::Operation operation) {
  const auto name = model::to_string(operation);
  return std::ranges::any_of(profile.operation_times, [&](const auto& t) { return t.operation == name && t.device_type == device_type; });
}

double share_of_whole(const model::Config& model, model::Operation half, const model::LayerShape& shape) {
  return model::flops(model, shape, half) / model::flops(model, shape, model::whole_of(half).value_or(half));
}

std::optional<Cost> element_cost(const cluster::Profile& profile, const std::string& device_type, const std::string& operation,
                                 Precision precision) {
  const cluster::OperationTime* best = nullptr;
  for (const auto& t : profile.operation_times) {
    if (t.operation != operation || t.device_type != device_type || !is_time(t.time)) continue;
    if (!best || (best->precision != precision && t.precision == precision)) best = &t;
  }
  if (!best) return std::nullopt;
  return Cost{best->time / 1e6, std::isfinite(best->relative_scatter) ? std::max(0.0, best->relative_scatter) : 0, false};
}

}  // namespace flotilla::simulate
