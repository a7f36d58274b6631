#include "plan_evaluator.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/allocate.hpp"
#include "flotilla/search/binding.hpp"

namespace flotilla::search::pool {
namespace {

bool belongs_to_update(const program::Instruction& instruction) {
  return instruction.as<program::ZeroFill>() || instruction.as<program::SquaredNorm>() || instruction.as<program::OptimizerUpdate>();
}

}  // namespace

PlanEvaluator::PlanEvaluator(const DevicePool& device_pool, const program::Runtime& runtime, const simulate::ProgramForecaster* ranks)
    : device_pool_{device_pool},
      runtime_{runtime},
      ranks_{ranks},
      profile_{device_pool.profile},
      types_{simulate::type_costs_of(profile_)} {
  profile_.devices.clear();
}

Bytes PlanEvaluator::process_memory(const std::vector<cluster::Device>& devices) const {
  if (!device_pool_.request.process_memory) return {};
  std::unordered_map<std::string_view, int> count;
  int most = 1;
  for (std::size_t i = 0; i < devices.size();) {  // devices of a host stand side by side, most of them
    const std::string_view host = devices[i].host;
    int& here = count[host];
    for (; i < devices.size() && devices[i].host == host; ++i) ++here;
    most = std::max(most, here);
  }
  return device_pool_.request.process_memory(most);
}

std::optional<Evaluation> PlanEvaluator::forecast_on(const plan::Plan& unbound, const plan::Plan& bound,
                                                     const simulate::ProgramForecaster& forecaster, bool may_stop) {
  const auto& should_stop = device_pool_.request.should_stop;
  const auto stops = [&] { return may_stop && should_stop && should_stop(); };
  if (stops()) return std::nullopt;
  const auto program = program::lower(bound, forecaster.runtime());
  if (stops()) return std::nullopt;
  ++forecasts_;
  const auto& devices = forecaster.profile().devices;
  Evaluation evaluation{unbound, forecaster.forecast(program), {}, plan::rank_count(bound)};
  const cluster::DeviceType* type = nullptr;  // that of the rank before, for most ranks
  evaluation.tightest = simulate::tightest(evaluation.forecast, [&](Rank rank) -> std::optional<Bytes> {
    const std::string& name = devices[rank.index()].type;
    if (!type || type->name != name) type = cluster::find_type(profile_, name);
    return type && type->memory.count > 0 ? std::optional{type->memory} : std::nullopt;
  });
  return evaluation;
}

std::optional<Evaluation> PlanEvaluator::forecast(const plan::Plan& plan, bool may_stop) {
  return ranks_ ? forecast_on_ranks(plan, may_stop) : forecast_elsewhere(plan, may_stop);
}

std::optional<Evaluation> PlanEvaluator::forecast_on_ranks(const plan::Plan& plan, bool may_stop) {
  const auto bound = on_devices(plan, ranks_->profile());
  if (!bound) return std::nullopt;
  try {
    return forecast_on(plan, *bound, *ranks_, may_stop);
  } catch (const Error& error) {
    note_refusal(error);
    return std::nullopt;
  }
}

std::optional<Evaluation> PlanEvaluator::forecast_elsewhere(const plan::Plan& plan, bool may_stop) {
  try {
    auto allocation = plan::allocate(plan, profile_);
    profile_.devices = std::move(allocation.devices);
    const simulate::ProgramForecaster forecaster{profile_, runtime_, process_memory(profile_.devices), types_};
    return forecast_on(plan, allocation.plan, forecaster, may_stop);
  } catch (const Error& error) {
    note_refusal(error);
    return std::nullopt;
  }
}

plan::Plan PlanEvaluator::seated(const plan::Plan& plan) const { return ranks_ ? on_devices(plan, ranks_->profile()).value() : plan; }

std::optional<std::vector<PlanEvaluator::StageCost>> PlanEvaluator::stage_costs(const plan::Plan& plan, const model::Config& measured) {
  try {
    auto allocation = plan::allocate(plan, profile_);
    program::Runtime runtime = runtime_;
    runtime.placement = program::placement_of(allocation.devices);
    auto program = program::lower(allocation.plan, runtime);
    program.plan.model = measured;
    profile_.devices = std::move(allocation.devices);
    const simulate::ProfileCost cost{profile_, types_};
    std::vector<StageCost> stages(plan.stages.size());
    for (const auto& kind : program.classes) {
      StageCost& stage = stages[at(kind.stage)];
      if (kind.arena < stage.memory.arena) continue;
      std::ranges::copy(program::arena_breakdown(kind), stage.memory.categories.begin());
      stage.memory.arena = kind.arena, stage.memory.runtime_constant = process_memory(profile_.devices), stage.update = {};
      for (const auto& instruction : kind.instructions)
        if (belongs_to_update(instruction)) stage.update = stage.update + cost.compute(program, kind, instruction, 0).time;
    }
    return stages;
  } catch (const Error& error) {
    note_refusal(error);
    return std::nullopt;
  }
}

void PlanEvaluator::note_refusal(const Error& error) {
  if (error.kind() == ErrorKind::internal) throw Error{error};
  if (first_refusal_.empty()) first_refusal_ = error.what();
}

std::optional<Evaluation> PlanEvaluator::forecast_on_one_host(const plan::Plan& plan) {
  const auto types = profile_.device_types;
  int devices = 0;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) devices += replica.tensor_parallel;
  for (auto& type : profile_.device_types) type.per_node = std::max(type.per_node, devices);
  auto evaluation = forecast_elsewhere(plan);
  profile_.device_types = types;
  return evaluation;
}

}  // namespace flotilla::search::pool
