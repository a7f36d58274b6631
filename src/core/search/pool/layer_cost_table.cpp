#include "layer_cost_table.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::search::pool {
namespace {

constexpr double bytes_of_moments = 8, bytes_of_fp32_copy = 4;  // bytes for an element, of Adam
constexpr int small_microbatches = 3;                           // of the small plan: stage s of 3 keeps 3 - s of them

double bytes(const simulate::MemoryForecast& memory, program::Category category) {
  return static_cast<double>(memory.categories[static_cast<std::size_t>(category)].count);
}

LayerCost part_of(const simulate::MemoryForecast& memory, int layers, Precision precision) {
  using enum program::Category;
  LayerCost part;
  part.state = (bytes(memory, parameters) + bytes(memory, gradients) + bytes(memory, optimizer)) / layers;
  // Of the parameters in half precision 4 of 6 bytes are the fp32 ones that the optimizer updates.
  const double masters = precision == Precision::fp32 ? 0 : bytes(memory, parameters) * 4 / 6;
  part.shareable = (bytes(memory, optimizer) + masters) / layers;
  return part;
}

/// Of one block more in a stage.
LayerCost difference(const LayerCost& a, const LayerCost& b) {
  return {0, a.update - b.update, a.state - b.state, a.activations - b.activations, a.shareable - b.shareable};
}

LayerCost part_of(const PlanEvaluator::StageCost& stage, Precision precision) {
  LayerCost part = part_of(stage.memory, 1, precision);
  part.update = stage.update.value;
  part.activations = bytes(stage.memory, program::Category::activations);
  return part;
}

/// One kind of each stage of a small plan.
std::array<const simulate::RankKind*, 3> stages_of(const Evaluation& evaluation) {
  std::array<const simulate::RankKind*, 3> out{};
  for (const auto& kind : evaluation.forecast.kinds)
    if (!out[at(kind.stage)]) out[at(kind.stage)] = &kind;
  return out;
}

/// The profile with the first nodes of each type's places alone, up to the first place that has room for groups of any degree.
cluster::Profile first_devices(const DevicePool& device_pool) {
  cluster::Profile few = device_pool.profile;
  few.devices.clear();
  for (const PoolType& type : device_pool.types)
    for (const int p : type.places) {
      const Place& place = device_pool.places[at(p)];
      const auto first = device_pool.profile.devices.begin() + place.first.value;
      const int most = type.per_node * tuning::most_nodes_of_a_group;
      few.devices.insert(few.devices.end(), first, first + std::min(place.count, most));
      if (place.count >= most) break;
    }
  return few;
}

model::LayerShape shape_of(const PlanRequest& request, int tensor, int microbatch, bool shares_tokens) {
  return {microbatch, request.length, tensor, 0, request.precision, shares_tokens};
}

}  // namespace

LayerCostTable::LayerCostTable(const DevicePool& device_pool, PlanEvaluator& evaluator) : device_pool_{device_pool}, evaluator_{evaluator} {
  std::ranges::copy_if(device_pool.degrees, std::back_inserter(other_degrees_),
                       [](int degree) { return !std::has_single_bit(static_cast<unsigned>(degree)); });
  const std::size_t degrees = powers + other_degrees_.size();
  references_.resize(device_pool.types.size() * degrees * modes * layouts);
  known_.resize(references_.size() * numbers_of_sizes);
  least_passes_.resize(known_.size());
  held_.resize(degrees * modes * layouts);
  if (!evaluator.runtime().layers) {
    first_devices_ = first_devices(device_pool);
    bounds_ = std::make_unique<simulate::ProgramForecaster>(first_devices_, evaluator.runtime(), Bytes{}, evaluator.types());
  }
  double token_embedding = 0, all = 0;
  for (const auto& tensor : model::tensors(device_pool.request.model)) {
    if (tensor.layer <= 1) elements_[at(tensor.layer)] += static_cast<double>(tensor.elements());
    if (tensor.layer + 1 == device_pool.request.model.layers()) elements_[2] += static_cast<double>(tensor.elements());
    if (tensor.layer != 0) continue;
    all += static_cast<double>(tensor.elements());
    if (tensor.tied_layer >= 0) token_embedding += static_cast<double>(tensor.elements());
  }
  token_embedding_share_ = all > 0 ? token_embedding / all : 0;
}

const LeastPassTime& LayerCostTable::find_least_pass(const Way& way, int microbatch) {
  auto& known = least_passes_[index(way, microbatch)];
  if (bounds_) return known.emplace(bound(way, microbatch).value_or(LeastPassTime{}));
  const LayerCostSample& s = of(way.type, way.tensor, microbatch, way.recompute, way.shares_tokens);
  return known.emplace(s.usable, s.embedding.pass, s.block.pass, s.head.pass);
}

std::optional<LeastPassTime> LayerCostTable::bound(const Way& way, int microbatch) const {
  const auto of = layer_bounds(way.type, way.tensor, microbatch, way.recompute, way.shares_tokens);
  if (!of) return std::nullopt;
  const auto seconds = [](const simulate::LayerBound& b) { return (b.forward + b.backward + b.recompute).value; };
  return LeastPassTime{true, seconds((*of)[0]), seconds((*of)[1]), seconds((*of)[2])};
}

std::vector<Rank> LayerCostTable::group_of(int type, int tensor) const {
  const PoolType& of = device_pool_.types[at(type)];
  for (const int p : of.places) {
    std::vector<Rank> group;
    for (const auto& device : first_devices_.devices)
      if (device.type == of.name && device.zone == device_pool_.places[at(p)].zone && static_cast<int>(group.size()) < tensor)
        group.push_back(device.rank);
    if (static_cast<int>(group.size()) == tensor) return group;
  }
  return {};
}

std::optional<std::array<simulate::LayerBound, 3>> LayerCostTable::layer_bounds(int type, int tensor, int microbatch,
                                                                                plan::Recompute recompute, bool sequence_parallel) const {
  if (!bounds_) return std::nullopt;
  const PlanRequest& request = device_pool_.request;
  const std::string& name = device_pool_.types[at(type)].name;
  const std::vector<Rank> group = group_of(type, tensor);
  if (group.empty()) return std::nullopt;
  const model::LayerShape shape = shape_of(request, tensor, microbatch, sequence_parallel && tensor > 1);
  const auto of = [&](int layer) { return bounds_->layer_bound(request.model, layer, shape, recompute, name, group); };
  try {
    return std::array{of(0), of(1), of(request.model.layers() - 1)};
  } catch (const Error& error) {
    evaluator_.note_refusal(error);
    return std::nullopt;
  }
}

double LayerCostTable::least_bytes(int first, int last, int tensor, int microbatch, plan::Recompute recompute) const {
  const PlanRequest& request = device_pool_.request;
  if (!bounds_) return 0;
  const model::LayerShape shape = shape_of(request, tensor, microbatch, shares_tokens(tensor, false));
  const double whole = static_cast<double>(bounds_->memory_bound(request.model, first, last, shape, recompute, 1).count);
  if (!request.constraints.shard_optimizer.value_or(true)) return whole;
  double elements = 0;  // whose moments, and fp32 copies, many replicas may shard until next to nothing is left
  for (int layer = first; layer < last; ++layer) elements += elements_[layer == 0 ? 0 : layer + 1 == request.model.layers() ? 2 : 1];
  return whole - elements / tensor * (request.precision == Precision::fp32 ? bytes_of_moments : bytes_of_moments + bytes_of_fp32_copy);
}

/// With so many layers in its stages.
plan::Plan LayerCostTable::small_plan(const Way& way, int microbatch, int count, std::span<const int> layers) const {
  const PlanRequest& request = device_pool_.request;
  const PoolType& of = device_pool_.types[at(way.type)];
  plan::Plan plan;
  plan.model = request.model;
  plan.model.blocks = std::accumulate(layers.begin(), layers.end(), -2);
  plan.model.experts.dense_blocks.clear();  // blocks count as alike: as those with experts
  plan.length = request.length;
  plan.precision = request.precision;
  plan.sequence_parallel = way.shares_tokens || request.constraints.sequence_parallel.value_or(false);
  plan.global_batch = count * microbatch;
  plan.quantum = microbatch;
  int first = 0;
  for (const int some : layers) {
    plan.stages.push_back({first,
                           first + some,
                           way.recompute,
                           {{of.name, device_pool_.places[at(of.places.front())].zone, way.tensor, {}, 1, plan.global_batch}}});
    first += some;
  }
  return plan;
}

std::optional<Evaluation> LayerCostTable::forecast_small_plan(const Way& way, int microbatch, int count) {
  const plan::Plan plan = small_plan(way, microbatch, count, std::array{1, device_pool_.request.model.blocks, 1});
  auto evaluation = evaluator_.forecast_elsewhere(plan);
  if (evaluation || way.tensor > device_pool_.types[at(way.type)].per_node) return evaluation;
  return evaluator_.forecast_on_one_host(plan);  // what the links between its stages cost is not looked at
}

/// Activations grow with microbatches in flight and with their size; the part that does not grow with the former is learnt once, from
/// plans of one sequence in each microbatch, as a share of what every further one takes.
const std::array<double, 3>* LayerCostTable::held_once(const Way& way, const Evaluation* of_one_sequence) {
  auto& known = held_[index({0, way.tensor, way.recompute, way.shares_tokens})];
  if (known) return &*known;
  std::optional<Evaluation> own;
  if (!of_one_sequence) own = forecast_small_plan(way, 1, small_microbatches);
  const Evaluation* many = of_one_sequence ? of_one_sequence : own ? &*own : nullptr;
  const auto one = many ? forecast_small_plan(way, 1, 1) : std::nullopt;
  if (!one) return nullptr;
  const auto kinds = stages_of(*many), alone = stages_of(*one);
  known.emplace();
  for (std::size_t s = 0; s < kinds.size(); ++s) {
    const double all = bytes(kinds[s]->memory, program::Category::activations);
    const double first = bytes(alone[s]->memory, program::Category::activations);
    const int in_flight = small_microbatches - static_cast<int>(s);
    const double each = in_flight > 1 ? (all - first) / (in_flight - 1) : all;
    (*known)[s] = each > 0 ? std::max(0.0, all / each - in_flight) : 0;
  }
  return &*known;
}

std::unique_ptr<LayerCostSample> LayerCostTable::take(const Way& way, int microbatch) {
  if (!bounds_) return measure_plan(way, microbatch);
  if (const LeastPassTime& pass = least_pass(way, microbatch); pass.usable)
    if (const auto& known = reference(way); known.one.usable) return from_reference(known, way.type, microbatch, pass);
  return std::make_unique<LayerCostSample>();
}

const LayerCostTable::Reference& LayerCostTable::reference(const Way& way) {
  const int nodes = device_pool_.types[at(way.type)].per_node;
  const auto first =
      std::ranges::find_if(device_pool_.types, [&](const PoolType& t) { return t.per_node == nodes && t.count >= way.tensor; });
  Way like = way;
  like.type = static_cast<int>(first - device_pool_.types.begin());
  auto& known = references_[index(like)];
  if (known) return *known;
  return known.emplace(measure_reference(like).value_or(Reference{}));
}

/// Stage s of three keeps 3 - s microbatches; what does not grow with them is the same in all three.
std::optional<LayerCostTable::Reference> LayerCostTable::measure_reference(const Way& way) {
  ++taken_;
  const PlanRequest& request = device_pool_.request;
  const int most = std::min(largest_microbatch, static_cast<int>(std::bit_floor(static_cast<unsigned>(request.global_batch))));
  const auto of = [&](int microbatch, std::initializer_list<int> layers) {
    return evaluator_.stage_costs(small_plan(way, microbatch, small_microbatches, {layers.begin(), layers.size()}), request.model);
  };
  const auto one = of(1, {2, 1, 2}), two = of(1, {3, 2, 3}), large = of(most, {1, 1, 2}), whole = of(1, {3}), large_whole = of(most, {3});
  if (!one || !two || !large || !whole || !large_whole) return std::nullopt;
  const auto part = [&](const auto& plan, int stage) { return part_of((*plan)[at(stage)], request.precision); };
  Reference known{way.type, most, {}, beside(*large, way.tensor), 0, 0};
  LayerCostSample& sample = known.one;
  sample.usable = true;
  sample.block = difference(part(two, 1), part(one, 1));
  sample.block.activations /= small_microbatches - 1;
  sample.once = part(one, 1).activations - (small_microbatches - 1) * sample.block.activations;
  known.once_of_most = part(large, 1).activations - (small_microbatches - 1) * sample.block.activations * most;
  sample.embedding = difference(part(one, 0), sample.block), sample.head = difference(part(one, 2), sample.block);
  sample.embedding.activations = std::max(0.0, (part(one, 0).activations - sample.once) / small_microbatches - sample.block.activations);
  sample.embedding_alone = part(large, 0).activations / (small_microbatches * most);
  sample.head.activations = std::max(0.0, part(one, 2).activations - sample.once - sample.block.activations);
  const double layers = sample.embedding.activations + sample.block.activations + sample.head.activations;
  sample.once_in_one_stage = part(whole, 0).activations - layers;
  known.once_in_one_stage_of_most = part(large_whole, 0).activations - layers * most;
  sample.shared = sample.embedding.state * token_embedding_share_;
  sample.beside = beside(*one, way.tensor);
  return known;
}

/// Of any stage.
double LayerCostTable::beside(const std::vector<PlanEvaluator::StageCost>& stages, int tensor) {
  double most = 0;
  for (const auto& [memory, update] : stages)
    most = std::max(most, bytes(memory, program::Category::workspace) + static_cast<double>(memory.runtime_constant.count));
  return most + (tensor > 1 ? bytes(stages[1].memory, program::Category::communication) : 0);
}

std::unique_ptr<LayerCostSample> LayerCostTable::from_reference(const Reference& known, int type, int microbatch,
                                                                const LeastPassTime& pass) const {
  constexpr std::int64_t some_elements = 1 << 20;
  const auto update = [&](int of) {
    return bounds_->optimizer_bound(some_elements, device_pool_.request.precision, device_pool_.types[at(of)].name).value;
  };
  const double slower = type == known.type || update(known.type) <= 0 ? 1 : update(type) / update(known.type);
  auto layer_cost = std::make_unique<LayerCostSample>(known.one);
  for (LayerCost* part : {&layer_cost->embedding, &layer_cost->block, &layer_cost->head})
    part->update *= slower, part->activations *= microbatch;
  layer_cost->embedding.pass = pass.embedding, layer_cost->block.pass = pass.block, layer_cost->head.pass = pass.head;
  layer_cost->embedding_alone *= microbatch;
  const double way = known.most > 1 ? (microbatch - 1.0) / (known.most - 1) : 0;
  layer_cost->beside += way * (known.beside_of_most - known.one.beside);
  layer_cost->once += way * (known.once_of_most - known.one.once);
  layer_cost->once_in_one_stage += way * (known.once_in_one_stage_of_most - known.one.once_in_one_stage);
  return layer_cost;
}

std::unique_ptr<LayerCostSample> LayerCostTable::measure_plan(const Way& way, int microbatch) {
  ++taken_;
  auto layer_cost = std::make_unique<LayerCostSample>();
  const auto evaluation = forecast_small_plan(way, microbatch, small_microbatches);
  const auto* held = evaluation ? held_once(way, microbatch == 1 ? &*evaluation : nullptr) : nullptr;
  if (!held) return layer_cost;
  layer_cost->usable = true;
  const auto kinds = stages_of(*evaluation);
  const std::array layers{1, device_pool_.request.model.blocks, 1};
  const std::array parts{&layer_cost->embedding, &layer_cost->block, &layer_cost->head};
  double once = 0;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    using enum simulate::Activity;
    const auto& [memory, b] = std::tie(kinds[s]->memory, kinds[s]->breakdown);
    const int in_flight = small_microbatches - static_cast<int>(s);
    const double each = bytes(memory, program::Category::activations) / (in_flight + (*held)[s]);
    *parts[s] = part_of(memory, layers[s], device_pool_.request.precision);
    parts[s]->pass = (b[forward] + b[backward] + b[recompute] + b[tensor_collective]).value / small_microbatches / layers[s];
    parts[s]->update = b[optimizer].value / layers[s];
    parts[s]->activations = each / layers[s];
    once = std::max(once, each * (*held)[s]);
    layer_cost->beside =
        std::max(layer_cost->beside, bytes(memory, program::Category::workspace) + static_cast<double>(memory.runtime_constant.count));
  }
  layer_cost->beside += once;
  layer_cost->embedding_alone = layer_cost->embedding.activations;
  add_communication(*layer_cost, way.tensor);
  layer_cost->shared = layer_cost->embedding.state * token_embedding_share_;
  return layer_cost;
}

void LayerCostTable::add_communication(LayerCostSample& layer_cost, int tensor) const {
  const auto& described = evaluator_.runtime().layers;
  if (tensor > 1) layer_cost.beside += static_cast<double>(described->tensor_group.count);
  layer_cost.neighbour = static_cast<double>(described->neighbour.count);
  const auto& each = described->per_parameter(device_pool_.request.precision);
  const double copies = static_cast<double>(each.communication.count), others = static_cast<double>(each.total().count) - copies;
  for (LayerCost* part : {&layer_cost.embedding, &layer_cost.block, &layer_cost.head}) part->state *= 1 + copies / others;
}

}  // namespace flotilla::search::pool
