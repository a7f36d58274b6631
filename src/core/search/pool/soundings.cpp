#include "soundings.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "sketch.hpp"

namespace flotilla::search::pool {
namespace {

using simulate::Activity;

constexpr int microbatches = 3;  // of the small plan: stage s of 3 keeps 3 - s of them
constexpr std::size_t degrees = 16, modes = 3;

std::size_t logarithm(int power_of_two) { return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(power_of_two)) - 1); }

double bytes(const simulate::MemoryForecast& memory, program::Category category) {
  return static_cast<double>(memory.categories[static_cast<std::size_t>(category)].count);
}

Part part_of(const simulate::RankKind& kind, int layers, Precision precision) {
  using enum program::Category;
  const auto& b = kind.breakdown;
  const Seconds passes = b[Activity::forward] + b[Activity::backward] + b[Activity::recompute] + b[Activity::tensor_collective];
  Part part;
  part.pass = passes.value / microbatches / layers;
  part.update = b[Activity::optimizer].value / layers;
  const auto& m = kind.memory;
  part.state = (bytes(m, parameters) + bytes(m, gradients) + bytes(m, optimizer)) / layers;
  // Of the parameters in half precision 4 of 6 bytes are the fp32 ones that the optimizer updates.
  const double masters = precision == Precision::fp32 ? 0 : bytes(m, parameters) * 4 / 6;
  part.shareable = (bytes(m, optimizer) + masters) / layers;
  return part;
}

/// The profile with the first nodes of each type's first place alone.
cluster::Profile first_devices(const Stock& stock) {
  cluster::Profile few = stock.profile;
  few.devices.clear();
  for (const Type& type : stock.types) {
    const Place& place = stock.places[at(type.places.front())];
    const auto first = stock.profile.devices.begin() + place.first.value;
    few.devices.insert(few.devices.end(), first, first + std::min(place.count, type.per_node * most_nodes_of_a_group));
  }
  return few;
}

/// One kind of each stage of a small plan.
std::array<const simulate::RankKind*, 3> stages_of(const Trial& trial) {
  std::array<const simulate::RankKind*, 3> out{};
  for (const auto& kind : trial.forecast.kinds)
    if (!out[at(kind.stage)]) out[at(kind.stage)] = &kind;
  return out;
}

model::LayerShape shape_of(const PlanRequest& request, int tensor, int microbatch) {
  const bool shares_tokens = tensor > 1 && request.constraints.sequence_parallel.value_or(false);
  return {microbatch, request.length, tensor, 0, request.precision, shares_tokens};
}

}  // namespace

Soundings::Soundings(const Stock& stock, Bench& bench) : stock_{stock}, bench_{bench} {
  known_.resize(stock.types.size() * degrees * numbers_of_sizes * modes);
  least_passes_.resize(known_.size());
  references_.resize(stock.types.size() * degrees * modes);
  held_.resize(degrees * modes);
  if (!bench.runtime().layers) {
    first_devices_ = first_devices(stock);
    bounds_ = std::make_unique<simulate::ProgramForecaster>(first_devices_, bench.runtime(), Bytes{}, bench.types());
  }
  double word = 0, all = 0;
  for (const auto& tensor : model::tensors(stock.request.model)) {
    if (tensor.layer != 0) continue;
    all += static_cast<double>(tensor.elements());
    if (tensor.tied_layer >= 0) word += static_cast<double>(tensor.elements());
  }
  word_share_ = all > 0 ? word / all : 0;
}

std::size_t Soundings::index(int type, int tensor, int microbatch, plan::Recompute recompute) const {
  return ((at(type) * degrees + logarithm(tensor)) * numbers_of_sizes + number_of_size(microbatch)) * modes +
         static_cast<std::size_t>(recompute);
}

const LeastPass& Soundings::least_pass(int type, int tensor, int microbatch, plan::Recompute recompute) {
  auto& known = least_passes_[index(type, tensor, microbatch, recompute)];
  if (!known) known = bound(type, tensor, microbatch, recompute);
  if (!known) {
    const Sounding& s = of(type, tensor, microbatch, recompute);
    known = LeastPass{s.usable, s.embedding.pass, s.block.pass, s.head.pass};
  }
  return *known;
}

std::optional<LeastPass> Soundings::bound(int type, int tensor, int microbatch, plan::Recompute recompute) const {
  const auto of = layer_bounds(type, tensor, microbatch, recompute, stock_.request.constraints.sequence_parallel.value_or(false));
  if (!of) return std::nullopt;
  const auto seconds = [](const simulate::LayerBound& b) { return (b.forward + b.backward + b.recompute).value; };
  return LeastPass{true, seconds((*of)[0]), seconds((*of)[1]), seconds((*of)[2])};
}

std::optional<std::array<simulate::LayerBound, 3>> Soundings::layer_bounds(int type, int tensor, int microbatch, plan::Recompute recompute,
                                                                           bool sequence_parallel) const {
  if (!bounds_) return std::nullopt;
  const PlanRequest& request = stock_.request;
  const std::string& name = stock_.types[at(type)].name;
  std::vector<Rank> group;
  for (const auto& device : first_devices_.devices)
    if (device.type == name && static_cast<int>(group.size()) < tensor) group.push_back(device.rank);
  if (static_cast<int>(group.size()) < tensor) return std::nullopt;
  const model::LayerShape shape{microbatch, request.length, tensor, 0, request.precision, sequence_parallel && tensor > 1};
  const auto of = [&](int layer) { return bounds_->layer_bound(request.model, layer, shape, recompute, name, group); };
  try {
    return std::array{of(0), of(1), of(request.model.layers() - 1)};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    return std::nullopt;
  }
}

double Soundings::least_bytes(int first, int last, int tensor, int microbatch, plan::Recompute recompute) const {
  const PlanRequest& request = stock_.request;
  if (!bounds_ || request.constraints.shard_optimizer.value_or(false)) return 0;
  const model::LayerShape shape = shape_of(request, tensor, microbatch);
  return static_cast<double>(bounds_->memory_bound(request.model, first, last, shape, recompute, 1).count);
}

const Sounding& Soundings::of(int type, int tensor, int microbatch, plan::Recompute recompute) {
  auto& known = known_[index(type, tensor, microbatch, recompute)];
  if (!known) known = take(type, tensor, microbatch, recompute);
  return *known;
}

std::optional<Trial> Soundings::small_plan(int type, int tensor, int microbatch, plan::Recompute recompute, int count) {
  const PlanRequest& request = stock_.request;
  const Type& of = stock_.types[at(type)];
  plan::Plan plan;
  plan.model = request.model;
  plan.length = request.length;
  plan.precision = request.precision;
  plan.sequence_parallel = request.constraints.sequence_parallel.value_or(false);
  plan.global_batch = count * microbatch;
  plan.quantum = microbatch;
  const int last = request.model.layers() - 1;
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, last}, {last, last + 1}})
    plan.stages.push_back(
        {begin, end, recompute, {{of.name, stock_.places[at(of.places.front())].zone, tensor, {}, 1, plan.global_batch}}});
  auto trial = bench_.forecast(plan);
  if (trial || tensor > of.per_node) return trial;
  return bench_.forecast_on_one_host(plan);  // what the links between its stages cost is not looked at
}

/// Activations grow with microbatches in flight and with their size; the part that does not grow with the former is learnt once, from
/// plans of one sequence in each microbatch, as a share of what every further one takes.
const std::array<double, 3>* Soundings::held_once(int type, int tensor, plan::Recompute recompute, const Trial* of_one_sequence) {
  auto& known = held_[logarithm(tensor) * modes + static_cast<std::size_t>(recompute)];
  if (known) return &*known;
  std::optional<Trial> own;
  if (!of_one_sequence) own = small_plan(type, tensor, 1, recompute, microbatches);
  const Trial* many = of_one_sequence ? of_one_sequence : own ? &*own : nullptr;
  const auto one = many ? small_plan(type, tensor, 1, recompute, 1) : std::nullopt;
  if (!one) return nullptr;
  const auto kinds = stages_of(*many), alone = stages_of(*one);
  known.emplace();
  for (std::size_t s = 0; s < kinds.size(); ++s) {
    const double all = bytes(kinds[s]->memory, program::Category::activations);
    const double first = bytes(alone[s]->memory, program::Category::activations);
    const int in_flight = microbatches - static_cast<int>(s);
    const double each = in_flight > 1 ? (all - first) / (in_flight - 1) : all;
    (*known)[s] = each > 0 ? std::max(0.0, all / each - in_flight) : 0;
  }
  return &*known;
}

std::unique_ptr<Sounding> Soundings::take(int type, int tensor, int microbatch, plan::Recompute recompute) {
  if (const auto pass = bound(type, tensor, microbatch, recompute))
    if (const auto& known = reference(type, tensor, recompute); known.usable()) return from_reference(known, type, microbatch, *pass);
  return sound(type, tensor, microbatch, recompute);
}

const Soundings::Reference& Soundings::reference(int type, int tensor, plan::Recompute recompute) {
  const int nodes = stock_.types[at(type)].per_node;
  const auto first = std::ranges::find_if(stock_.types, [&](const Type& t) { return t.per_node == nodes && t.count >= tensor; });
  const auto like = static_cast<int>(first - stock_.types.begin());
  auto& known = references_[(at(like) * degrees + logarithm(tensor)) * modes + static_cast<std::size_t>(recompute)];
  if (known) return *known;
  const auto batch = static_cast<unsigned>(stock_.request.global_batch);
  known = Reference{like, std::min(largest_microbatch, static_cast<int>(std::bit_floor(batch))), nullptr, nullptr};
  known->one = sound(like, tensor, 1, recompute);
  known->many = sound(like, tensor, known->most, recompute);
  return *known;
}

std::unique_ptr<Sounding> Soundings::from_reference(const Reference& known, int type, int microbatch, const LeastPass& pass) const {
  const double way = known.most > 1 ? (microbatch - 1.0) / (known.most - 1) : 0;
  const auto between = [&](double one, double many) { return one + way * (many - one); };
  constexpr std::int64_t some_elements = 1 << 20;
  const auto update = [&](int of) {
    return bounds_->optimizer_bound(some_elements, stock_.request.precision, stock_.types[at(of)].name).value;
  };
  const double slower = type == known.type || update(known.type) <= 0 ? 1 : update(type) / update(known.type);
  auto sounding = std::make_unique<Sounding>(*known.one);
  for (const auto part : {&Sounding::embedding, &Sounding::block, &Sounding::head}) {
    Part& here = (*sounding).*part;
    here.update *= slower;
    here.activations = between(here.activations, ((*known.many).*part).activations);
  }
  sounding->embedding.pass = pass.embedding, sounding->block.pass = pass.block, sounding->head.pass = pass.head;
  sounding->beside = between(known.one->beside, known.many->beside);
  return sounding;
}

std::unique_ptr<Sounding> Soundings::sound(int type, int tensor, int microbatch, plan::Recompute recompute) {
  ++taken_;
  auto sounding = std::make_unique<Sounding>();
  const auto trial = small_plan(type, tensor, microbatch, recompute, microbatches);
  const auto* held = trial ? held_once(type, tensor, recompute, microbatch == 1 ? &*trial : nullptr) : nullptr;
  if (!held) return sounding;
  sounding->usable = true;
  const auto kinds = stages_of(*trial);
  const std::array layers{1, stock_.request.model.blocks, 1};
  const std::array parts{&sounding->embedding, &sounding->block, &sounding->head};
  double once = 0;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const auto& memory = kinds[s]->memory;
    const int in_flight = microbatches - static_cast<int>(s);
    const double each = bytes(memory, program::Category::activations) / (in_flight + (*held)[s]);
    *parts[s] = part_of(*kinds[s], layers[s], stock_.request.precision);
    parts[s]->activations = each / layers[s];
    once = std::max(once, each * (*held)[s]);
    sounding->beside =
        std::max(sounding->beside, bytes(memory, program::Category::workspace) + static_cast<double>(memory.runtime_constant.count));
  }
  sounding->beside += once;
  add_communication(*sounding, kinds[1]->memory, tensor);
  sounding->shared = sounding->embedding.state * word_share_;
  return sounding;
}

void Soundings::add_communication(Sounding& sounding, const simulate::MemoryForecast& block, int tensor) const {
  const auto& described = bench_.runtime().layers;
  if (!described) {
    if (tensor > 1) sounding.beside += bytes(block, program::Category::communication);
    return;
  }
  if (tensor > 1) sounding.beside += static_cast<double>(described->tensor_group.count);
  sounding.neighbour = static_cast<double>(described->neighbour.count);
  const auto& each = stock_.request.precision == Precision::fp32 ? described->in_fp32 : described->in_half;
  const double copies = static_cast<double>(each.communication.count), others = static_cast<double>(each.total().count) - copies;
  for (Part* part : {&sounding.embedding, &sounding.block, &sounding.head}) part->state *= 1 + copies / others;
}

}  // namespace flotilla::search::pool
