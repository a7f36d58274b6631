#include "app/inspect/inspect.hpp"

#include <fstream>
#include <iostream>

#include "app/common/fabric_text.hpp"
#include "app/common/job_table.hpp"
#include "app/common/plan_text.hpp"
#include "app/common/planning_text.hpp"
#include "app/common/report_text.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/files/corrections_file.hpp"
#include "flotilla/files/fabric_links_file.hpp"
#include "flotilla/files/forecast_file.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/planning_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/journal/history.hpp"
#include "flotilla/journal/run_directory.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

/// What was found: the text to print, and whether it is whole.
struct FormatFinding {
  std::string text;
  bool sound = true;
  bool has_plan = false;  ///< --write-plan was obeyed
};

void write_plan_of(const checkpoint::Manifest& manifest, const fs::path& directory, const std::string& file) {
  const auto source = (directory / "manifest.json").string() + ": /plan";
  FLOTILLA_REQUIRE(!manifest.plan.empty(), ErrorKind::bad_input, source, ": this checkpoint has no plan to write");
  files::write_plan(file, files::plan_from_json(manifest.plan, source));
}

/// `newer`: on nodes' storage only, where it is of the run that the checkpoint is of.
FormatFinding of_checkpoint(const fs::path& directory, const InspectOptions& o,
                            const std::optional<journal::CheckpointRecord>& newer = {}) {
  const auto description = checkpoint::describe(directory, o.verify);
  const bool sound = description.damaged_segments() == 0;
  if (!o.write_plan.empty()) write_plan_of(description.manifest, directory, o.write_plan);
  if (o.output.json) return {checkpoint_json(description, directory, newer), sound, true};
  const auto remark = newer ? key_values_within({{"newest", printable(journal::undrained_in_words(*newer))}}, table_width) : std::string{};
  return {remark + checkpoint_text(description, directory, o.output.file.empty() ? output_style() : Style{}), sound, true};
}

FormatFinding of_directory(const fs::path& path, const InspectOptions& o) {
  if (files::facts_of(path / "manifest.json")) return of_checkpoint(path, o);
  const auto steps = checkpoint::list(path);
  const auto newer = files::facts_of(journal::metrics_file(path)) ? journal::undrained(journal::read_metrics(path)) : std::nullopt;
  FLOTILLA_REQUIRE(!steps.empty() || !newer, ErrorKind::bad_input, path.string(), ": holds no checkpoint; ",
                   newer ? journal::undrained_in_words(*newer) : "");
  FLOTILLA_REQUIRE(!steps.empty(), ErrorKind::bad_input, path.string(),
                   ": neither a committed checkpoint (no manifest.json) nor a run directory that holds one (no step-N/manifest.json)");
  return of_checkpoint(steps.back().directory, o, newer && newer->step > steps.back().step ? newer : std::nullopt);
}

/// A state.h5 whose manifest is elsewhere: its own checksums are all there is.
FormatFinding of_bare_state(const fs::path& path, const InspectOptions& o) {
  const checkpoint::Description description{{}, checkpoint::describe_bare(path, o.verify), o.verify};
  const bool sound = description.damaged_segments() == 0;
  if (o.output.json) return {tensors_json(description, path), sound};
  return {tensors_text(description, path, o.output.file.empty() ? output_style() : Style{}), sound};
}

bool is_hdf5(const fs::path& path) {
  constexpr std::string_view signature{"\x89HDF\r\n\x1a\n"};
  std::string head(signature.size(), '\0');
  std::ifstream{path, std::ios::binary}.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == signature;
}

std::string corrections_text(const std::vector<cluster::Correction>& corrections) {
  std::string lines;
  for (const auto& c : corrections)
    lines += text("corrected: ", cluster::name_of(c), ", ", c.was, " to ", c.now, formatted(" (%.2f times; ", c.factor()),
                  c.inferred ? "inferred from the type's others" : text("median of ", c.iterations, " iterations"), ", ", c.run, " step ",
                  c.step, ")\n");
  return printable_lines(lines);
}

FormatFinding of_json(const fs::path& path, const InspectOptions& o) {
  const auto document = files::Json::read(path);
  const std::string format = document.is_object() && document.has("format") ? document.get_string("format") : "";
  const Style style = o.output.file.empty() ? output_style() : Style{};
  if (format == "flotilla-plan") {
    const auto plan = files::plan_from_json(document);
    return {o.output.json ? files::plan_to_json(plan) : plan_text(plan, style)};
  }
  if (format == "flotilla-profile") {
    const auto library = files::library_from_json(document);
    const auto fabric_links = files::fabric_links_of(document);
    const auto corrections = files::corrections_of(document);
    if (o.output.json) return {files::library_to_json(library, fabric_links, corrections)};
    const auto fabric = fabric_text(fabric_links, style);
    return {text(library_text(library, style), fabric.empty() ? "" : "\n", fabric, corrections.empty() ? "" : "\n",
                 corrections_text(corrections))};
  }
  if (format == "flotilla-forecast") {
    const auto report = files::forecast_from_json(document);
    return {o.output.json ? files::forecast_to_json(report) : report_text(report, style)};
  }
  if (format == "flotilla-planning") {
    const auto planning = files::planning_from_json(document);
    return {o.output.json ? files::planning_to_json(planning) : planning_text(planning, style, output_width())};
  }
  document.refuse(
      "expected \"format\": \"flotilla-plan\", \"flotilla-profile\", \"flotilla-forecast\" or \"flotilla-planning\", or a checkpoint's "
      "folder");
}

FormatFinding look_at(const fs::path& path, const InspectOptions& o) {
  std::error_code missing;
  const auto status = fs::status(path, missing);
  files::require_there(path, "a checkpoint, a run directory, or a file of plan, profile or forecast");
  if (fs::is_directory(status)) return of_directory(path, o);
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path{"."};
  const bool state = path.filename() == "state.h5";
  if (path.filename() == "manifest.json" || (state && files::facts_of(folder / "manifest.json"))) return of_directory(folder, o);
  return state || (fs::is_regular_file(status) && is_hdf5(path)) ? of_bare_state(path, o) : of_json(path, o);
}

}  // namespace

options::Table inspect_table(InspectOptions& o) {
  options::Table table;
  table.section("inspect", "Inspecting");
  table.add("inspect.verify", &o.verify, "read all of a checkpoint and compare its checksums", {.alias = "verify"});
  table.add("inspect.write-plan", &o.write_plan, "write the plan of a checkpoint to this file, for --plan and flotilla simulate",
            {.value = "FILE", .unset = "none", .alias = "write-plan"});
  add_output(table, o.output);
  return table;
}

BoundTable inspect_options() {
  auto options = std::make_shared<InspectOptions>();
  auto table = inspect_table(*options);
  return {options, std::move(table)};
}

int inspect(std::span<const std::string> arguments) {
  InspectOptions o;
  auto table = inspect_table(o);
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  FLOTILLA_REQUIRE(operands.size() == 1, ErrorKind::usage, "expected one file or folder to inspect, got ", operands.size());
  log::set_level(o.output.log_level);
  const auto finding = look_at(operands[0], o);
  FLOTILLA_REQUIRE(o.write_plan.empty() || finding.has_plan, ErrorKind::usage, operands[0],
                   ": --write-plan takes the plan out of a checkpoint (its directory, or a run directory), and this is none");
  write_output(o.output, finding.text);
  if (finding.sound) return static_cast<int>(ExitCode::done);
  log::error(text(operands[0], ": damaged; an older checkpoint of the run may be whole"));
  return static_cast<int>(ExitCode::bad_input);
}

}  // namespace flotilla::app
