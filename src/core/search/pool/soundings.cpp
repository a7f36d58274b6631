#include "soundings.hpp"

#include <algorithm>
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

/// Of a described runtime's communication buffers what does not grow with the parameters.
double buffers_once(const program::Runtime& runtime, int tensor, int neighbours) {
  if (!runtime.layers) return 0;
  return static_cast<double>((tensor > 1 ? runtime.layers->tensor_group.count : 0) + neighbours * runtime.layers->neighbour.count);
}

Part part_of(const simulate::RankKind& kind, int layers, int in_flight, double once) {
  using enum program::Category;
  const auto& b = kind.breakdown;
  const Seconds passes = b[Activity::forward] + b[Activity::backward] + b[Activity::recompute] + b[Activity::tensor_collective];
  Part part;
  part.pass = passes.value / microbatches / layers;
  part.update = b[Activity::optimizer].value / layers;
  const auto& m = kind.memory;
  part.state = (bytes(m, parameters) + bytes(m, gradients) + bytes(m, optimizer) + bytes(m, communication) - once) / layers;
  part.activations = bytes(m, activations) / in_flight / layers;
  return part;
}

}  // namespace

Soundings::Soundings(const Stock& stock, Bench& bench) : stock_{stock}, bench_{bench} {
  known_.resize(stock.types.size() * degrees * sizes * modes);
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

std::unique_ptr<Sounding> Soundings::take(int type, int tensor, int microbatch, plan::Recompute recompute) {
  ++taken_;
  const PoolRequest& request = stock_.request;
  const Type& of = stock_.types[at(type)];
  plan::Plan plan;
  plan.model = request.model;
  plan.length = request.length;
  plan.precision = request.precision;
  plan.global_batch = microbatches * microbatch;
  plan.quantum = microbatch;
  const int last = request.model.layers() - 1;
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, last}, {last, last + 1}})
    plan.stages.push_back(
        {begin, end, recompute, {{of.name, stock_.places[at(of.places.front())].zone, tensor, {}, 1, plan.global_batch}}});
  auto sounding = std::make_unique<Sounding>();
  auto trial = bench_.forecast(plan);
  if (!trial) trial = bench_.forecast_on_one_host(plan);  // what the links between its stages cost is not looked at
  if (!trial) return sounding;
  sounding->usable = true;
  std::vector<bool> seen(plan.stages.size(), false);
  for (const auto& kind : trial->forecast.kinds) {
    if (seen[at(kind.stage)]) continue;
    seen[at(kind.stage)] = true;
    const int layers = kind.stage == 1 ? request.model.blocks : 1;
    Part& part = kind.stage == 0 ? sounding->embedding : kind.stage == 1 ? sounding->block : sounding->head;
    const double once = buffers_once(bench_.runtime(), tensor, kind.stage == 1 ? 2 : 1);
    part = part_of(kind, layers, microbatches - kind.stage, once);
    sounding->beside = std::max(sounding->beside,
                                bytes(kind.memory, program::Category::workspace) + static_cast<double>(kind.memory.runtime_constant.count));
  }
  sounding->shared = sounding->embedding.state * word_share_;
  return sounding;
}

}  // namespace flotilla::search::pool
