#include "app/export/export.hpp"

#include "app/common/job_table.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"

namespace flotilla::app {
namespace {

constexpr const char* what = "sailor-plan";

options::Choice<files::SailorSpelling> spellings() {
  using files::SailorSpelling;
  return {{"pipeline-list", "counted"},
          [](const std::string& name) { return name == "counted" ? SailorSpelling::counted : SailorSpelling::pipeline_list; },
          [](const SailorSpelling& s) { return s == SailorSpelling::counted ? "counted" : "pipeline-list"; }};
}

std::map<std::string, int> node_sizes(const std::string& profiles) {
  std::map<std::string, int> sizes;
  if (profiles.empty()) return sizes;
  for (const auto& type : files::read_profile(profiles).device_types)
    if (type.per_node > 0) sizes.emplace(type.name, type.per_node);
  return sizes;
}

bool names_every_zone(const plan::Plan& plan) {
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      if (replica.zone.empty()) return false;
  return true;
}

}  // namespace

options::Table export_table(ExportOptions& o) {
  options::Table t;
  t.section("export", "Exporting");
  t.add("export.profiles", &o.profiles, "profile library that says how many devices of a type a node has",
        {.value = "FILE", .unset = "a replica is a node", .alias = "profiles"});
  t.add("export.spelling", &o.spelling,
        "a list of pipelines, as the artifact's simulator takes it, or stages with counted replicas, as in its lists of plans", spellings(),
        {.alias = "spelling"});
  t.add("export.zone", &o.zone, "zone to write for replicas that name none", {.value = "ZONE", .alias = "zone"});
  add_output(t, o.output);
  return t;
}

BoundTable export_options() {
  auto options = std::make_shared<ExportOptions>();
  auto table = export_table(*options);
  return {options, std::move(table)};
}

int export_for_others(std::span<const std::string> arguments) {
  ExportOptions o;
  auto table = export_table(o);
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  FLOTILLA_REQUIRE(!operands.empty(), ErrorKind::usage, "expected: flotilla export sailor-plan PLAN");
  FLOTILLA_REQUIRE(operands[0] == what, ErrorKind::usage, "flotilla export knows no ", in_quotes(operands[0]),
                   suggestion(operands[0], {what}), "; expected sailor-plan PLAN");
  FLOTILLA_REQUIRE(operands.size() == 2, ErrorKind::usage, "expected: flotilla export sailor-plan PLAN");
  log::set_level(o.output.log_level);
  const auto plan = files::read_plan(operands[1]);
  write_output(o.output, files::sailor_plan_to_json(plan, operands[1], {o.spelling, node_sizes(o.profiles), o.zone}));
  if (!names_every_zone(plan)) log::info("replicas that name no zone are written as of ", o.zone, "; --zone names another");
  log::info(plan::summary(plan), o.output.file.empty() ? "" : "; written to " + o.output.file);
  return static_cast<int>(ExitCode::done);
}

}  // namespace flotilla::app
