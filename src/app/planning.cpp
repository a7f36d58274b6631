#include "app/planning.hpp"

#include <optional>

#include "app/import.hpp"
#include "app/live_line.hpp"
#include "app/planning_checks.hpp"
#include "app/planning_options.hpp"
#include "app/planning_text.hpp"
#include "app/pool.hpp"
#include "app/refuse.hpp"
#include "app/restrictions.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/planning_file.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds quiet_for{2}, shown_every{0.2};

/// What is planned for whom.
struct Task {
  search::PoolRequest request;
  cluster::Profile profile;  ///< knows every type of the pool, lists no devices
  ForecastSettings settings;
};

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
  return pool_of_devices(profile);
}

Task task_of(const PlanningOptions& o) {
  const auto library = known_devices(o.basis);
  const auto catalogue = files::built_in_catalogue();
  Task task;
  auto& request = task.request;
  request.model = model_of(o, library);
  model::check(request.model, request.model.name);
  request.length = length_of(o, request.model);
  request.global_batch = o.global_batch;
  request.precision = o.precision;
  request.objective = objective_of(o);
  request.restrictions = read_restrictions(o.restrict, o.setting("plan.restrict"));
  request.tolerance = o.tolerance.value;
  request.alternatives = o.alternatives;
  request.near_best = o.within.value;
  if (!o.previous.empty()) request.previous = files::read_plan(o.previous);
  request.pool = pool_of(o, library.profile, catalogue);
  warn_of_missing_links(o, request.pool, library.profile);
  request.process_memory = runtime_constant;
  auto profile = profile_for(library.profile, o.basis, request.model, request.length);
  task.profile = with_prices(without_devices(std::move(profile), catalogue, request.pool), o.basis.prices);
  require_figures(o, request.objective, request.pool, task.profile);
  task.settings = settings_of(o.basis);
  return task;
}

/// The search, with an eye on the clock.
files::Planning search_for(Task& task, const PlanningOptions& o) {
  files::Planning planning{task.request.pool, task.request.objective, task.request.restrictions, {}, {}, {}, false};
  LiveLine line;
  const Seconds begin = now();
  Seconds shown = begin + quiet_for;
  task.request.should_stop = [&] {
    const Seconds time = now();
    if (time >= shown) {
      line.show(text("searching: ", time - begin, o.time_limit.value > 0 ? text(" of ", o.time_limit, " at most") : ""));
      shown = time + shown_every;
    }
    if (o.time_limit.value > 0 && time - begin >= o.time_limit) planning.cut_off = true;
    return planning.cut_off;
  };
  planning.answer = o.basis.sailor_artifact ? search::plan_by_rules(task.request, task.profile)
                                            : search::plan_by_program(task.request, task.profile, task.settings.runtime);
  planning.searched = now() - begin;
  if (planning.answer.finished) planning.cut_off = false;  // it was over when the time was
  return planning;
}

simulate::Report forecast_of(const plan::Plan& plan, const Task& task) {
  const Forecasting forecasting{subject_of(plan, task.profile, "the plan"), task.settings};
  return report_on(forecasting, forecasting.forecast(), task.profile, task.settings);
}

std::string why_none(const files::Planning& planning, const PlanningOptions& o) {
  std::string why = planning.answer.no_plan_reason;
  if (why.empty()) why = "the search ended before any plan was found";
  if (planning.cut_off)
    why += text("; cut off after ", planning.searched, " (--search.time-limit ", o.setting("search.time-limit").value, ")");
  return why;
}

}  // namespace

int find_plan(std::span<const std::string> arguments) {
  const auto o = read_planning_options(arguments, options::environment());
  auto task = task_of(o);
  auto planning = search_for(task, o);
  if (!planning.answer.best) {
    planning.answer.no_plan_reason = why_none(planning, o);
    if (o.output.json) write_output(o.output, files::planning_to_json(planning));
    throw Error{ErrorKind::no_plan, planning.answer.no_plan_reason};
  }
  planning.forecast = forecast_of(planning.answer.best->plan, task);
  if (!o.write_plan.empty()) files::write_plan(o.write_plan, planning.answer.best->plan);
  const bool to_terminal = o.output.file.empty();
  write_output(o.output, o.output.json ? files::planning_to_json(planning)
                                       : planning_text(planning, to_terminal ? output_style() : Style{}, output_width()));
  // The search knows no scratch memory of CPU libraries; the forecast does.
  return static_cast<int>(planning.forecast->fits() ? ExitCode::done : ExitCode::no_plan);
}

}  // namespace flotilla::app
