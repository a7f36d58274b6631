#include "flotilla/simulate/forecaster.hpp"

#include <cmath>
#include <map>
#include <tuple>

#include "cost/bounds.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/program/host_memory.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "flotilla/simulate/transports.hpp"
#include "machine/interpret.hpp"
#include "report/expense.hpp"

namespace flotilla::simulate {
namespace {

/// A plan of few bytes may ask for more instructions than a memory holds.
void require_size(const program::Program& program) {
  constexpr double most = 1e8;
  double issued_instructions = 0;
  for (const auto& c : program.classes) issued_instructions += static_cast<double>(c.instructions.size()) * c.microbatches;
  FLOTILLA_REQUIRE(issued_instructions <= most, ErrorKind::bad_input, "the plan's kinds of ranks run ", issued_instructions,
                   " instructions in a step; at most ", most, " are simulated, give it larger microbatches");
}

}  // namespace

struct ProgramForecaster::State {
  State(const cluster::Profile& p, program::Runtime r, Bytes constant, std::shared_ptr<TypeCosts> types)
      : profile{p},
        runtime{std::move(r)},
        runtime_constant{runtime.layers ? runtime.layers->process : constant},
        cost{runtime.layers ? ProfileCost{p, *runtime.layers, std::move(types)} : ProfileCost{p, std::move(types)}} {
    if (runtime.layers && runtime.sizes.empty()) runtime.sizes = p.layer_sizes;
    if (!runtime.layers) runtime.placement = program::placement_of(p.devices);
  }

  using LayerKey = std::tuple<int, int, int, int, Precision, bool, plan::Recompute, std::string, std::vector<Rank>>;
  using MemoryKey = std::tuple<int, int, int, int, int, Precision, bool, plan::Recompute, int>;

  const cluster::Profile& profile;
  program::Runtime runtime;
  Bytes runtime_constant;
  ProfileCost cost;
  model::Config model;  // of what is remembered
  std::map<LayerKey, LayerBound> layers;
  std::map<MemoryKey, Bytes> arenas;
  ElementTables elements;

  void remember_for(const model::Config& wanted) {
    if (model == wanted) return;
    layers.clear();
    arenas.clear();
    model = wanted;
  }
};

ProgramForecaster::ProgramForecaster(const cluster::Profile& profile, program::Runtime runtime, Bytes runtime_constant,
                                     std::shared_ptr<TypeCosts> types)
    : state_{std::make_unique<State>(profile, std::move(runtime), runtime_constant, std::move(types))} {}
ProgramForecaster::~ProgramForecaster() = default;

const cluster::Profile& ProgramForecaster::profile() const { return state_->profile; }
const program::Runtime& ProgramForecaster::runtime() const { return state_->runtime; }
Bytes ProgramForecaster::runtime_constant() const { return state_->runtime_constant; }

Forecast ProgramForecaster::forecast(const plan::Plan& plan, bool timeline) const {
  return forecast(program::lower(plan, state_->runtime), timeline);
}

Forecast ProgramForecaster::forecast(const program::Program& program, bool timeline) const {
  require_size(program);
  auto result = interpret(program, state_->cost, {timeline, state_->runtime_constant});
  if (state_->runtime.layers)
    add_description(result, program.plan.precision);
  else
    add_gpus(program, result), add_transports(program, result);
  result.expense = expense_of(program, state_->profile, result.iteration);
  return result;
}

/// What is known of the runtime as a whole, and of the libraries on each type.
void ProgramForecaster::add_description(Forecast& forecast, Precision precision) const {
  const auto& described = *state_->runtime.layers;
  forecast.memory_error = precision == Precision::fp32 ? described.memory_error : described.memory_error_half;
  forecast.relative_error =
      std::hypot(forecast.relative_error, precision == Precision::fp32 ? described.relative_error : described.relative_error_half);
  for (auto& kind : forecast.kinds)
    if (const auto* type = cluster::find_type(state_->profile, kind.device_type)) kind.memory.runtime_constant += type->context;
}

/// A measured GPU's own memory has what its libraries took when it was measured; the rest of the process is in its host's.
void ProgramForecaster::add_gpus(const program::Program& program, Forecast& forecast) const {
  for (auto& kind : forecast.kinds) {
    const auto* type = cluster::find_type(state_->profile, kind.device_type);
    if (type == nullptr || !type->to_host.known()) continue;
    const auto on_host = program::host_memory(program.classes[static_cast<std::size_t>(kind.rank_class)], program.plan.precision);
    kind.memory.on_host = {on_host.pinned, on_host.state, kind.memory.runtime_constant, type->host_memory};
    kind.memory.runtime_constant = type->context;
  }
}

/// What NCCL and MPI take of a device's memory counts with what libraries took when it was measured.
void ProgramForecaster::add_transports(const program::Program& program, Forecast& forecast) const {
  if (state_->profile.device_links.empty()) return;
  const auto transports = choose_transports(program, state_->cost);
  const auto connections = nccl_connections(program, transports), peers = device_mpi_peers(program, transports);
  for (auto& kind : forecast.kinds) {
    const auto* type = cluster::find_type(state_->profile, kind.device_type);
    if (type == nullptr) continue;
    const auto first = kind.ranks.front().index();
    kind.memory.runtime_constant += connections[first] * type->nccl_memory;
    kind.memory.runtime_constant += peers[first] * type->device_mpi_memory;
  }
  forecast.transports = uses_of(transports);
}

LayerBound ProgramForecaster::layer_bound(const model::Config& model, int layer, const model::LayerShape& shape, plan::Recompute recompute,
                                          const std::string& device_type, const std::vector<Rank>& devices) const {
  State& state = *state_;
  state.remember_for(model);
  const int alike = model.is_block(layer) ? 1 : layer;  // blocks are alike
  const State::LayerKey key{alike,
                            shape.sequences,
                            shape.length,
                            shape.tensor_parallel,
                            shape.precision,
                            shape.sequence_parallel,
                            recompute,
                            device_type,
                            devices.size() > 1 ? devices : std::vector<Rank>{}};
  const auto found = state.layers.find(key);
  if (found != state.layers.end()) return found->second;
  return state.layers[key] = bound_of_layer(state.cost, model, layer, shape, recompute, device_type, devices);
}

Seconds ProgramForecaster::optimizer_bound(std::int64_t elements, Precision precision, const std::string& device_type) const {
  return state_->cost.adamw(device_type, elements, precision).time;
}

Bytes ProgramForecaster::memory_bound(const model::Config& model, int first, int last, const model::LayerShape& shape,
                                      plan::Recompute recompute, int in_flight) const {
  State& state = *state_;
  state.remember_for(model);
  const State::MemoryKey key{
      first, last, shape.sequences, shape.length, shape.tensor_parallel, shape.precision, shape.sequence_parallel, recompute, in_flight};
  const auto found = state.arenas.find(key);
  const Bytes arena = found != state.arenas.end()
                          ? found->second
                          : state.arenas[key] = bound_of_arena(model, state.elements.of(model, shape.tensor_parallel), first, last, shape,
                                                               recompute, in_flight);
  return arena + state.runtime.library_scratch + state.runtime_constant;
}

}  // namespace flotilla::simulate
