#include "soundings.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "flotilla/model/tensors.hpp"

namespace flotilla::search::pool {
namespace {

using simulate::Activity;

constexpr int microbatches = 3;  // of the small plan: stage s of 3 keeps 3 - s of them
constexpr std::size_t degrees = 16, sizes = 24, modes = 3;

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

/// One kind of each stage of a small plan.
std::array<const simulate::RankKind*, 3> stages_of(const Trial& trial) {
  std::array<const simulate::RankKind*, 3> out{};
  for (const auto& kind : trial.forecast.kinds)
    if (!out[at(kind.stage)]) out[at(kind.stage)] = &kind;
  return out;
}

}  // namespace

Soundings::Soundings(const Stock& stock, Bench& bench) : stock_{stock}, bench_{bench} {
  known_.resize(stock.types.size() * degrees * sizes * modes);
  held_.resize(degrees * modes);
  double word = 0, all = 0;
  for (const auto& tensor : model::tensors(stock.request.model)) {
    if (tensor.layer != 0) continue;
    all += static_cast<double>(tensor.elements());
    if (tensor.tied_layer >= 0) word += static_cast<double>(tensor.elements());
  }
  word_share_ = all > 0 ? word / all : 0;
}

const Sounding& Soundings::of(int type, int tensor, int microbatch, plan::Recompute recompute) {
  auto& known =
      known_[((at(type) * degrees + logarithm(tensor)) * sizes + logarithm(microbatch)) * modes + static_cast<std::size_t>(recompute)];
  if (!known) known = take(type, tensor, microbatch, recompute);
  return *known;
}

std::optional<Trial> Soundings::small_plan(int type, int tensor, int microbatch, plan::Recompute recompute, int count) {
  const PoolRequest& request = stock_.request;
  const Type& of = stock_.types[at(type)];
  plan::Plan plan;
  plan.model = request.model;
  plan.length = request.length;
  plan.precision = request.precision;
  plan.sequence_parallel = request.manner.sequence_parallel.value_or(false);
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
const std::array<double, 3>* Soundings::held_once(int type, int tensor, plan::Recompute recompute) {
  auto& known = held_[logarithm(tensor) * modes + static_cast<std::size_t>(recompute)];
  if (known) return &*known;
  const auto many = small_plan(type, tensor, 1, recompute, microbatches), one = small_plan(type, tensor, 1, recompute, 1);
  if (!many || !one) return nullptr;
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
  ++taken_;
  auto sounding = std::make_unique<Sounding>();
  const auto trial = small_plan(type, tensor, microbatch, recompute, microbatches);
  const auto* held = trial ? held_once(type, tensor, recompute) : nullptr;
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
