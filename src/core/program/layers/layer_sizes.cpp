#include "layer_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::program {
namespace {

constexpr std::int64_t mask_byte = 1;      // of a dropout mask, per element
constexpr std::int64_t measured_word = 4;  // bytes of an element of cluster::LayerSize

Bytes rounded(double bytes) { return {static_cast<std::int64_t>(bytes + 0.5)}; }

}  // namespace

int expert_group(const plan::Plan& plan, const LayerRuntime& runtime) {
  if (!plan.model.experts.on()) return 1;
  const auto replicas = static_cast<int>(plan.stages.front().replicas.size());
  return std::gcd(runtime.expert_parallel > 0 ? runtime.expert_parallel : plan.model.experts.count, replicas);
}

LayerSizes::LayerSizes(const plan::Plan& plan, const std::vector<model::Tensor>& tensors, const Runtime& runtime)
    : plan_{plan}, tensors_{tensors}, runtime_{runtime}, expert_group_{expert_group(plan, *runtime.layers)} {}

const cluster::LayerSize* LayerSizes::measured(int layer, int tensor_parallel) const {
  for (const auto& size : runtime_.sizes)
    if (size.tensor_parallel == tensor_parallel && size.first_layer <= layer && layer < size.last_layer && size.model == plan_.model.name)
      return &size;
  return nullptr;
}

std::int64_t LayerSizes::parameters(int first, int last, int tensor_parallel) const {
  std::int64_t elements = 0;
  bool all_measured = true;
  for (int layer = first; layer < last && all_measured; ++layer) {
    const auto* size = measured(layer, tensor_parallel);
    all_measured = size != nullptr;
    if (size) elements += size->parameters;
  }
  if (all_measured) return elements;
  elements = 0;
  const bool has_head = last == plan_.model.layers();
  for (const auto& tensor : tensors_) {
    const bool ours = (first <= tensor.layer && tensor.layer < last) || (tensor.tied_layer >= 0 && has_head);
    if (ours && !model::is_of_experts(tensor)) elements += plan::shard_elements(tensor, tensor_parallel, 0);
  }
  return elements + expert_parameters(first, last, tensor_parallel);
}

std::int64_t LayerSizes::expert_parameters(int first, int last, int tensor_parallel) const {
  const model::Experts& experts = plan_.model.experts;
  std::int64_t elements = 0;
  if (!experts.on()) return elements;
  for (const auto& tensor : tensors_)
    if (first <= tensor.layer && tensor.layer < last && model::is_of_experts(tensor))
      elements += plan::shard_elements(tensor, tensor_parallel, 0) / experts.count * experts.on_each_of(expert_group_);
  return elements;
}

Bytes LayerSizes::scores(const model::LayerShape& shape, double copies, bool mask) const {
  const double matrix = static_cast<double>(shape.tokens()) * shape.length * model::local_heads(plan_.model, shape);
  return rounded(matrix * (copies * static_cast<double>(element_size(shape.precision).count) + (mask ? mask_byte : 0)));
}

Bytes LayerSizes::without_recompute(int layer, const model::LayerShape& shape) const {
  if (const auto* size = measured(layer, shape.tensor_parallel)) return {size->saved * measured_word * shape.sequences};
  const auto& model = plan_.model;
  const std::int64_t element = element_size(shape.precision).count, width = shape.tokens() * model.hidden;
  const std::int64_t split = plan_.sequence_parallel ? shape.tensor_parallel : 1;
  if (model.is_embedding(layer)) return {width * mask_byte / split};
  if (model.is_head(layer))
    return Bytes{width * 2 * element / split} + shape.tokens() * model::local_vocabulary(model, shape) * runtime_.layers->logit_kept;
  // Inputs of both norms, of the products behind them and two masks stand whole on every member unless the sequence is parallel; queries,
  // keys, values and the attention's output by heads; the feed-forward's hidden activations by columns, before and after the activation.
  const std::int64_t mask = model.dropout > 0 ? mask_byte : 0;
  const std::int64_t whole = width * (4 * element + 2 * mask) / split;
  const std::int64_t heads = std::int64_t{model::local_heads(model, shape)} * model.head_size();
  const std::int64_t by_heads = shape.tokens() * (model::qkv_width(model, shape) + heads) * element;
  const std::int64_t columns = model::columns_through(model, shape, model.has_experts(layer));
  const std::int64_t by_columns = shape.tokens() * columns * (model.gated() ? 3 : 2) * element;
  return Bytes{whole + by_heads + by_columns + dispatched(layer, shape)} - converted(layer, shape) +
         (stores_scores() ? scores(shape, 2, true) : Bytes{});
}

/// Outputs of attention and of every second product, where the block's input is kept besides (LayerKernels::keeps_other_products): queries,
/// values, gate and down.
Bytes LayerSizes::between_products(int layer, const model::LayerShape& shape) const {
  const auto& model = plan_.model;
  const std::int64_t heads = std::int64_t{model::local_heads(model, shape)} * model.head_size();
  const std::int64_t values = (model::qkv_width(model, shape) - heads) / 2;
  const std::int64_t columns = model::columns_through(model, shape, model.has_experts(layer));
  const std::int64_t down = model.gated() ? model.hidden / (plan_.sequence_parallel ? shape.tensor_parallel : 1) : 0;
  return shape.tokens() * (2 * heads + values + columns + down) * element_size(shape.precision);
}

/// What the inputs of a block's linear products take less as narrower operands. Attention's output is kept twice, for its own backward pass
/// as it came.
Bytes LayerSizes::converted(int layer, const model::LayerShape& shape) const {
  if (!runtime_.layers->narrow) return {};
  const auto& model = plan_.model;
  const double element = static_cast<double>(element_size(shape.precision).count), kept = runtime_.layers->narrow->kept_bytes;
  if (kept >= element) return {};
  const double norms = 2.0 * model.hidden / (plan_.sequence_parallel ? shape.tensor_parallel : 1);
  const double heads = static_cast<double>(model::local_heads(model, shape)) * model.head_size();
  const auto columns = static_cast<double>(model::columns_through(model, shape, model.has_experts(layer)));
  return rounded(static_cast<double>(shape.tokens()) * ((norms + columns) * (element - kept) - heads * kept));
}

/// Tokens as they lie before the experts and behind them, a copy for each expert that a token goes through.
std::int64_t LayerSizes::dispatched(int layer, const model::LayerShape& shape) const {
  if (!plan_.model.has_experts(layer)) return 0;
  return 2 * plan_.model.experts.per_token * shape.tokens() * plan_.model.hidden * element_size(shape.precision).count;
}

bool LayerSizes::stores_scores() const { return runtime_.layers->kernels(plan_.precision).score_passes_forward > 0; }

bool LayerSizes::waits_in_host(int layer) const { return plan_.model.is_block(layer) && layer <= runtime_.layers->blocks_in_host; }

Bytes LayerSizes::saved(int layer, const model::LayerShape& shape, plan::Recompute recompute) const {
  return waits_in_host(layer) ? Bytes{} : kept(layer, shape, recompute);
}

Bytes LayerSizes::in_host(int layer, const model::LayerShape& shape, plan::Recompute recompute) const {
  if (!waits_in_host(layer)) return {};
  const int parts = runtime_.layers->host_copies_parted ? shape.tensor_parallel : 1;
  return {kept(layer, shape, recompute).count / (std::int64_t{shape.sequences} * parts)};
}

bool LayerSizes::repeats(int layer) const {
  const double part = runtime_.layers->recomputed_blocks;
  return plan_.model.is_block(layer) && std::lround(layer * part) > std::lround((layer - 1) * part);
}

Bytes LayerSizes::kept(int layer, const model::LayerShape& shape, plan::Recompute recompute) const {
  const Bytes all = without_recompute(layer, shape);
  if (!repeats(layer) || recompute == plan::Recompute::none) return all;
  const Bytes input{boundary().count * shape.sequences / (plan_.sequence_parallel ? shape.tensor_parallel : 1)};
  if (recompute == plan::Recompute::full) return std::min(all, input);
  if (runtime_.layers->kernels(plan_.precision).keeps_other_products) return std::min(all, input + between_products(layer, shape));
  if (!stores_scores()) return all;
  // What was measured keeps one matrix of scores (the sizes of three models and degrees say so), the formula two and a mask.
  const bool known = measured(layer, shape.tensor_parallel) != nullptr;
  return std::max(std::min(all, input), all - scores(shape, known ? 1 : 2, !known));
}

Bytes LayerSizes::temporaries(int layer, const model::LayerShape& shape, plan::Recompute recompute) const {
  const auto& description = *runtime_.layers;
  const auto& model = plan_.model;
  if (model.is_embedding(layer)) return {};
  if (model.is_head(layer)) {
    const Bytes gradients = shape.tokens() * model::local_vocabulary(model, shape) * description.logit_gradient;
    return gradients + rounded(description.logits_alive * static_cast<double>(logits(layer, shape).count));
  }
  return without_recompute(layer, shape) - saved(layer, shape, recompute) + scores(shape, description.scores_alive, false);
}

Bytes LayerSizes::logits(int layer, const model::LayerShape& shape) const {
  if (const auto* whole = measured(layer, 1)) return {whole->output * measured_word * shape.sequences};
  return {shape.tokens() * plan_.model.vocabulary * measured_word};
}

Bytes LayerSizes::boundary() const { return std::int64_t{plan_.length} * plan_.model.hidden * element_size(plan_.precision); }

}  // namespace flotilla::program
