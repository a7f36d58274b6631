#include "app/common/planning_task.hpp"

#include <limits>
#include <set>

#include "app/common/device_names.hpp"
#include "app/common/library_model.hpp"
#include "app/common/planning_checks.hpp"
#include "app/common/pool.hpp"
#include "app/common/refuse.hpp"
#include "app/common/restrictions.hpp"
#include "app/common/search_clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/cluster/product_peak.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/search/binding.hpp"

namespace flotilla::app {
namespace {

model::Config model_of(const PlanningOptions& o, const files::Library& library) {
  if (!o.model.config.empty()) return files::read_hugging_face_config(o.model.config);
  if (o.model.name.empty() && library.models.size() == 1) return library.models.front();
  FLOTILLA_REQUIRE(!o.model.name.empty(), ErrorKind::usage, "the model is not given; write for example --model.name ",
                   library.models.empty() ? "opt-350m" : library.models.front().name);
  try {
    return model_in(library, o.model.name);
  } catch (const Error& error) {
    refuse(o.setting("model.name"), o.model.name, error.what());
  }
}

int length_of(const PlanningOptions& o, const model::Config& model) {
  if (o.length > model.positions)
    refuse(o.setting("training.length"), text(o.length),
           text("longer than the ", model.positions, " positions of ", model.name, "; write at most ", model.positions));
  return o.length > 0 ? o.length : model.positions;
}

search::Pool pool_of(const PlanningOptions& o, const cluster::Profile& profile, const cluster::Catalogue& catalogue) {
  if (!o.pool.empty()) return read_pool(o.pool, o.setting("plan.pool"), profile, catalogue);
  FLOTILLA_REQUIRE(
      !profile.devices.empty(), ErrorKind::usage,
      o.basis.profiles.empty() ? "no devices to plan for" : o.basis.profiles + " lists no devices",
      "; write for example --pool A100-40@us-central1-a=32/4, or give the profile that flotilla probe wrote (--profiles FILE)");
  return search::pool_of_devices(profile);
}

/// What does not depend on the pool.
search::PlanRequest request_of(const PlanningOptions& o, const files::Library& library) {
  search::PlanRequest request;
  request.model = model_of(o, library);
  model::check(request.model, request.model.name);
  if (o.basis.sailor_artifact && request.model.experts.on())
    refuse(o.setting("plan.cost-model"), "sailor-artifact", "its formulas know no experts; leave this option out");
  request.length = length_of(o, request.model);
  request.global_batch = o.global_batch;
  request.precision = o.precision.value_or(Precision::fp32);
  request.objective = objective_of(o, iterations_of(o, request));
  request.constraints = constraints_of(o);
  request.restrictions = read_restrictions(o.restrict, o.setting("plan.restrict"));
  request.tolerance = o.tolerance.value;
  request.alternatives = o.alternatives;
  request.near_best = o.within.value;
  request.wants_proof = !o.certificate.empty();
  if (request.wants_proof && o.basis.sailor_artifact)
    refuse(o.setting("search.certificate"), o.certificate,
           "the cost model sailor-artifact proves by enumeration; leave it out, or --cost-model");
  if (!o.previous.empty()) request.previous = files::read_plan(o.previous);
  request.process_memory = runtime_constant;
  return request;
}

bool multiplies_in(const cluster::DeviceType& type, Precision precision) { return cluster::product_peak(type, precision).value > 0; }

/// What each type of the pool is made for, the widest range first.
std::vector<Precision> made_for(const search::Pool& pool, const cluster::Profile& profile) {
  std::vector<Precision> found;
  for (const auto precision : {Precision::bf16, Precision::fp16, Precision::fp32})
    if (std::ranges::any_of(pool, [&](const auto& entry) {
          const auto* type = cluster::find_type(profile, entry.device_type);
          return type != nullptr && cluster::made_for(*type) == precision;
        }))
      found.push_back(precision);
  return found;
}

/// Who asks for bf16 is told of devices that cannot take part.
void warn_of_lacking_bf16(const search::Pool& pool, const cluster::Profile& profile) {
  std::set<std::string> lacking;
  bool some_have = false;
  for (const auto& entry : pool) {
    const auto* type = cluster::find_type(profile, entry.device_type);
    if (type == nullptr) continue;
    some_have |= multiplies_in(*type, Precision::bf16);
    if (!multiplies_in(*type, Precision::bf16) && multiplies_in(*type, Precision::fp16)) lacking.insert(entry.device_type);
  }
  const std::vector<std::string> names{lacking.begin(), lacking.end()};
  if (some_have && !names.empty())
    log::warning(joined(names), names.size() == 1 ? " has" : " have",
                 " no bf16 and cannot take part; --training.precision auto plans in fp16, too, and takes the better plan");
}

/// What was left open: a plan's that is planned again, a measured profile's own, else what the devices are made for, the best first.
std::vector<Precision> open_precisions(const search::PlanRequest& request, const cluster::Profile& profile) {
  if (request.previous) return {request.previous->precision};
  const auto& measured = profile.operation_times;
  if (!measured.empty() && std::ranges::all_of(measured, [&](const auto& time) { return time.precision == measured.front().precision; }))
    return {measured.front().precision};
  return made_for(request.pool, profile);
}

/// Where the types of a pool are made for several precisions, the two that come first are planned both.
void settle_precision(PlanningTask& task, const PlanningOptions& o) {
  auto& request = task.request;
  if (o.precision == Precision::bf16) warn_of_lacking_bf16(request.pool, task.profile);
  if (o.precision || o.basis.sailor_artifact) return;  // whose formulas are those of fp32
  const auto open = open_precisions(request, task.profile);
  if (!open.empty()) request.precision = open.front();
  if (open.size() > 1) task.other_precision = open[1];
}

int nodes_in(const search::Pool& pool, const std::string& zone) {
  int nodes = 0;
  for (const auto& entry : pool)
    if (entry.zone == zone) nodes += (entry.count + entry.per_node - 1) / std::max(entry.per_node, 1);
  return nodes;
}

PlanningTask task_of(const PlanningOptions& o, search::PlanRequest request, const cluster::Profile& library,
                     const cluster::Catalogue& catalogue, const Offer& offer) {
  request.pool = offer.pool;
  require_explanations(o);
  const auto iterations = iterations_of(o, request);
  const auto places = places_of(request.pool);
  warn_of_missing_links(o, request.pool, library);
  auto profile = without_devices(profile_for(library, o.basis, request.model, request.length), catalogue, request.pool);
  for (const auto& [place, units] : offer.billing) cluster::zone_price(profile, place.type, place.zone).billing_weight = units;
  profile = with_prices(std::move(profile), o.basis.prices, catalogue, places);
  require_figures(o, request.objective, request.pool, profile);
  PlanningTask task{std::move(request), std::move(profile), settings_of(o.basis), {}, iterations};
  settle_precision(task, o);
  if (o.time_limit.value > 0) {
    const std::size_t searches = 1 + task.other_precision.has_value() + o.pareto + o.explain;
    task.time = std::make_shared<TimeShares>(now() + o.time_limit, std::vector<double>(searches, 1.0));
  }
  if (o.basis.sailor_artifact) return require_one_price(task.profile), task;
  task.assumed = join_nodes(task.profile, library, places, o.basis.networks, offer.one_cluster);
  std::erase_if(task.assumed.nodes, [&](const auto& node) { return nodes_in(task.request.pool, node.zone) < 2; });
  return task;
}

}  // namespace

namespace {

std::string vendor_of(const cluster::CatalogueEntry& entry) { return entry.vendor.empty() ? "NVIDIA" : entry.vendor; }

/// Other runtimes run on other vendors' GPUs, too, and on those of one at a time.
void warn_of_two_vendors(const search::Pool& pool, const cluster::Catalogue& catalogue) {
  std::map<std::string, std::string> types;  // by vendor, one
  for (const auto& entry : pool)
    if (const auto* known = cluster::find(catalogue, entry.device_type); known && known->kind == cluster::DeviceKind::gpu)
      types.try_emplace(vendor_of(*known), entry.device_type);
  if (types.size() < 2) return;
  std::vector<std::string> words;
  for (const auto& [vendor, type] : types) words.push_back(text(type, " (", vendor, ")"));
  log::warning(joined(words), ": no collective library joins GPUs of two vendors, so one job cannot take both; plan each by itself");
}

/// Plans are for any hardware; a run by Flotilla is not.
void warn_of_untrainable(const PlanningOptions& o, const search::Pool& pool, const cluster::Catalogue& catalogue) {
  if (o.basis.runtime != "flotilla" || o.basis.sailor_artifact) return warn_of_two_vendors(pool, catalogue);
  std::set<std::string> theirs;
  for (const auto& entry : pool)
    if (!is_trainable(cluster::find(catalogue, entry.device_type))) theirs.insert(entry.device_type);
  std::string listed;
  for (const auto& type : theirs) listed += (listed.empty() ? "" : ", ") + type;
  if (!theirs.empty())
    log::warning(listed, ": Flotilla trains on CPUs and NVIDIA GPUs only; this plan cannot run there (--runtime names who else runs it)");
}

}  // namespace

PlanningTask planning_task(const PlanningOptions& o) {
  const auto library = known_devices(o.basis);
  const auto catalogue = catalogue_of(o.basis);
  auto request = request_of(o, library);
  auto pool = pool_of(o, library.profile, catalogue);
  warn_of_untrainable(o, pool, catalogue);
  return task_of(o, std::move(request), library.profile, catalogue, {std::move(pool), {}, false});
}

PlanningTask planning_task(const PlanningOptions& o, const Offer& offer) {
  const auto library = known_devices(o.basis);
  return task_of(o, request_of(o, library), library.profile, catalogue_of(o.basis), offer);
}

namespace {

files::Planning search_as_asked(const PlanningTask& task) {
  files::Planning planning{task.request.pool, task.request.objective, task.request.restrictions, {}, {}, {}, false};
  planning.again = task.request.previous.has_value();
  planning.assumed_links = task.assumed.links;
  planning.assumed_networks = task.assumed.nodes;
  SearchClock clock{"searching", task.next_limit()};
  auto request = task.request;
  request.should_stop = [&] { return clock.is_over(); };
  planning.answer = search::plan(request, *forecaster_for_pools(task.profile, task.settings));
  planning.searched = clock.elapsed();
  planning.cut_off = clock.cut_off() && !planning.answer.finished;  // finished: it was over when the time was
  return planning;
}

}  // namespace

Seconds PlanningTask::next_limit() const {
  constexpr Seconds shortest{1e-9};  // 0 would be none
  return time ? std::max(time->next(), shortest) : Seconds{};
}

files::Planning search_for(PlanningTask& task) {
  auto planning = search_as_asked(task);
  if (!task.other_precision) return planning;
  auto first = std::move(planning);
  PlanningTask other = task;
  std::swap(other.request.precision, *other.other_precision);
  auto second = search_as_asked(other);
  const auto value = [](const files::Planning& p) {
    return p.answer.best ? p.answer.best->value : std::numeric_limits<double>::infinity();
  };
  const bool other_is_better = value(second) < value(first);
  const auto& worse = other_is_better ? first : second;
  files::OtherPrecision lost{other_is_better ? task.request.precision : *task.other_precision, {}};
  if (worse.answer.best) lost.iteration = worse.answer.best->iteration;
  if (other_is_better) task = std::move(other);
  auto& better = other_is_better ? second : first;
  better.other_precision = lost;
  return std::move(better);
}

simulate::Report forecast_of(const plan::Plan& plan, const PlanningTask& task) {
  const Forecasting forecasting{subject_of(plan, task.profile, "the plan"), task.settings};
  return report_on(forecasting, forecasting.forecast(), task.profile, task.settings);
}

std::string why_none(const files::Planning& planning, const PlanningOptions& o) {
  std::string why = planning.answer.no_plan_reason;
  if (why.empty()) why = "the search stopped before it found a plan";
  if (planning.cut_off)
    why += text("; stopped after ", planning.searched, " (--search.time-limit ", o.setting("search.time-limit").value, ")");
  return why;
}

}  // namespace flotilla::app
