#include "app/plan/planning.hpp"

#include "app/common/planning_economics.hpp"
#include "app/common/planning_page.hpp"
#include "app/common/planning_text.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/certificate_file.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::app {

namespace {

/// What the forecast rests on, as flotilla simulate is told it: with that, the plan's file alone has this forecast.
std::string forecast_basis(const PlanningOptions& o) {
  files::JsonLine simulate, data;
  simulate.add("runtime", o.basis.runtime);
  for (const char* file : {"profiles", "catalogue"})
    if (const auto& said = o.setting(text("plan.", file)); said.origin != options::Origin::standard)
      simulate.add(file, std::filesystem::absolute(said.value).lexically_normal().string());
  for (const char* key : {"pool", "cost-model", "reduction", "attention", "deterministic", "expert-parallel", "price", "billing", "egress",
                          "link", "nic", "oversubscription"})
    if (const auto& said = o.setting(text("plan.", key)); said.origin != options::Origin::standard) simulate.add_json(key, said.toml);
  if (const auto& said = o.setting("data.documents"); said.origin != options::Origin::standard) data.add_json("documents", said.toml);
  return files::JsonLine{}.add_json("simulate", simulate.text()).add_json("data", data.text()).text();
}

}  // namespace

int find_plan(std::span<const std::string> arguments) {
  const auto o = read_planning_options(arguments, options::environment());
  auto task = planning_task(o);
  auto planning = search_for(task);
  if (!planning.answer.best) {
    planning.answer.no_plan_reason = why_none(planning, o);
    if (o.output.json) write_output(o.output, files::planning_to_json(planning));
    throw Error{ErrorKind::no_plan, planning.answer.no_plan_reason};
  }
  add_economics(planning, task, o);
  if (!o.write_plan.empty()) files::write_plan(o.write_plan, planning.answer.best->plan, forecast_basis(o));
  if (planning.answer.proof && !o.certificate.empty()) files::write_text(o.certificate, files::certificate_to_json(planning.answer));
  if (!o.page.empty()) files::write_text(o.page, planning_page(planning, task));
  const bool to_terminal = o.output.file.empty();
  write_output(o.output, o.output.json ? files::planning_to_json(planning)
                                       : planning_text(planning, to_terminal ? output_style() : Style{}, output_width()));
  FLOTILLA_REQUIRE(planning.answer.proof || o.certificate.empty(), ErrorKind::unavailable, "nothing is proven of this plan, so ",
                   o.certificate, " was not written; a longer --search.time-limit may find a proof");
  // The search knows no scratch memory of CPU libraries; the forecast does.
  return static_cast<int>(planning.forecast->fits() ? ExitCode::done : ExitCode::no_plan);
}

}  // namespace flotilla::app
