#include "app/common/forecasting.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/sailor/artifact.hpp"
#include "flotilla/simulate/why_not.hpp"

namespace flotilla::app {
namespace {

/// What our runtime hands to the matrix library on CPUs and measured GPUs: as the trainer asks for it, the largest of all ranks.
void ask_for_scratch(const BoundPlan& subject, const compute::ComputeDevice& how, program::Runtime& runtime) {
  const auto& plan = subject.plan;
  for (const auto& device : subject.profile.devices) runtime.threads = std::max(runtime.threads, device.threads);
  std::set<std::tuple<bool, int, int>> asked;  // tensor degree and microbatch: the library takes a while to answer
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) {
      const auto* type = cluster::find_type(subject.profile, replica.device_type);
      const int sequences = replica.quanta * plan.quantum;
      if (type == nullptr) continue;
      const bool on_gpu = type->kind == cluster::DeviceKind::gpu;
      if ((on_gpu && !type->to_host.known()) || !asked.emplace(on_gpu, replica.tensor_parallel, sequences).second) continue;
      compute::ComputeDevice device = how;
      device.kind = on_gpu ? cluster::DeviceKind::gpu : cluster::DeviceKind::cpu;
      for (int t = 0; t < replica.tensor_parallel; ++t) {
        const bool shares = plan.sequence_parallel && replica.tensor_parallel > 1;
        const compute::Setup setup{plan.model, plan.length, replica.tensor_parallel,   t, plan.precision, runtime.threads, 0, shares,
                                   device,     0,           runtime.separate_documents};
        runtime.library_scratch = std::max(runtime.library_scratch, compute::library_scratch(setup, sequences));
      }
    }
}

simulate::MemoryLimit limits_of(const cluster::Profile& profile) {
  return [&profile](Rank rank) -> std::optional<Bytes> {
    const auto* type = cluster::find_type(profile, profile.devices.at(rank.index()).type);
    return type != nullptr && type->memory.count > 0 ? std::optional{type->memory} : std::nullopt;
  };
}

bool has_devices(const plan::Plan& plan) { return !plan.stages.front().replicas.front().devices.empty(); }

plan::Plan unbound(plan::Plan plan) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.devices.clear();
  return plan;
}

}  // namespace

Bytes runtime_constant(int ranks_on_a_host) { return Bytes{160 << 20} + ranks_on_a_host * Bytes{8 << 20}; }

int most_on_a_host(const std::vector<cluster::Device>& devices) {
  std::map<std::string, int> count;
  int most = 1;
  for (const auto& device : devices) most = std::max(most, ++count[device.host]);
  return most;
}

cluster::Profile with_catalogue(cluster::Profile profile, const cluster::Catalogue& catalogue, const plan::Plan& plan,
                                const std::string& source) {
  std::set<std::string> types;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      if (!replica.device_type.empty()) types.insert(replica.device_type);
  try {
    return cluster::complete_from_catalogue(std::move(profile), catalogue, {types.begin(), types.end()});
  } catch (const Error& error) {
    throw Error{error.kind(), text(source, ": ", error.what())};
  }
}

bool drop_times_of_another_model(cluster::Profile& profile, const model::Config& model, int length) {
  const bool same = model::shape_of(profile.model_fingerprint) == model::shape_of(model::fingerprint(model, length));
  if (profile.model_fingerprint.empty() || same) return false;
  std::set<std::string_view> names;  // of a model's operations; the others, such as adamw, are for a number of elements
  for (int o = 0; o < model::all_operation_count; ++o) names.insert(model::to_string(static_cast<model::Operation>(o)));
  return std::erase_if(profile.operation_times, [&](const auto& time) { return names.contains(time.operation); }) > 0;
}

std::unique_ptr<simulate::Forecaster> forecaster_for_pools(const cluster::Profile& profile, const ForecastSettings& settings) {
  if (settings.sailor_artifact) return std::make_unique<sailor::SailorArtifact>(profile);
  return std::make_unique<simulate::ProgramForecaster>(profile, settings.runtime, Bytes{});
}

Forecasting::Forecasting(BoundPlan subject, const ForecastSettings& settings) : subject_{std::move(subject)} {
  if (settings.sailor_artifact) {
    forecaster_ = std::make_unique<sailor::SailorArtifact>(subject_.profile);
    return;
  }
  program::Runtime runtime = settings.runtime;
  if (!runtime.layers) ask_for_scratch(subject_, settings.device, runtime);
  forecaster_ =
      std::make_unique<simulate::ProgramForecaster>(subject_.profile, runtime, runtime_constant(most_on_a_host(subject_.profile.devices)));
}

simulate::Report report_on(const Forecasting& forecasting, const simulate::Forecast& forecast, const cluster::Profile& profile,
                           const ForecastSettings& settings) {
  const auto& subject = forecasting.subject();
  auto report = simulate::report_of(subject.plan, subject.profile, forecast);
  report.runtime = settings.runtime.name;
  if (settings.sailor_artifact) report.cost_model = "sailor-artifact";
  // Invented devices are invented again for every change; real ones keep their places while the change leaves them bound.
  const bool invented = profile.devices.empty();
  const auto attempt = [&](const plan::Plan& changed) -> std::optional<simulate::ChangedPlan> {
    try {
      const bool keep = !invented && has_devices(changed);
      const Forecasting other{keep ? BoundPlan{changed, subject.profile, ""} : subject_of(unbound(changed), profile, "the changed plan"),
                              settings};
      const auto result = other.forecast();
      const auto tightest = simulate::tightest(result, limits_of(other.subject().profile));
      return simulate::ChangedPlan{result.iteration, tightest ? tightest->limit - tightest->needed : Bytes{}};
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) throw;
      return std::nullopt;  // this runtime cannot execute it, or nobody knows the links it would need
    }
  };
  report.why_not = simulate::why_not(subject.plan, report, attempt);
  return report;
}

}  // namespace flotilla::app
