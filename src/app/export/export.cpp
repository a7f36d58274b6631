#include "app/export/export.hpp"

#include <array>
#include <filesystem>

#include "app/common/job_table.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/weights/llmc.hpp"

namespace flotilla::app {
namespace {

/// One kind of export: its word on the command line, and what becomes of the operand.
struct Export {
  const char* word;
  const char* operand;
  void (*run)(const std::string& path, const ExportOptions&);
};

options::Choice<Precision> weight_precisions() {
  return {{"fp32", "bf16", "fp16"},
          [](const std::string& name) { return parse_precision(name); },
          [](const Precision& p) { return to_string(p); }};
}

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

void a_plan(const std::string& path, const ExportOptions& o) {
  const auto plan = files::read_plan(path);
  write_output(o.output, files::sailor_plan_to_json(plan, path, {o.spelling, node_sizes(o.profiles), o.zone}));
  if (!names_every_zone(plan)) log::info("replicas that name no zone are written as of ", o.zone, "; --zone names another");
  log::info(plan::summary(plan), o.output.file.empty() ? "" : "; written to " + o.output.file);
}

/// A checkpoint's own directory, or the newest of a run.
std::filesystem::path step_in(const std::filesystem::path& path) {
  files::require_there(path, "a checkpoint or a run directory");
  if (files::facts_of(path / "manifest.json")) return path;
  const auto newest = checkpoint::latest(path);
  FLOTILLA_REQUIRE(newest, ErrorKind::bad_input, path.string(),
                   ": neither a committed checkpoint (no manifest.json) nor a run directory that holds one (no step-N/manifest.json)");
  return newest->directory;
}

/// What is in the checkpoint and not in what was written.
void warn_of_rounding(const weights::ExportReport& report, Precision precision) {
  if (report.norms_rounded_back == 0) return;
  log::warning(report.norms_rounded_back, report.norms_rounded_back == 1 ? " weight of a norm is" : " weights of norms are",
               " rounded back to 1 in ", to_string(precision), ", from up to ", formatted("%.1e", report.moved_most),
               " away: what training moved them by is lost; --precision fp32 keeps it");
}

void weights_of(const std::string& path, const ExportOptions& o) {
  FLOTILLA_REQUIRE(!o.output.file.empty(), ErrorKind::usage, "flotilla export hf writes a directory; name it: -o DIRECTORY");
  const auto step = step_in(path);
  const auto report = weights::export_hugging_face(step, o.output.file, o.weights);
  log::info(step.string(), ": ", report.tensors, " tensors, ", report.size, " in ", to_string(o.weights.precision), ", ", report.files,
            report.files == 1 ? " file" : " files", "; written to ", o.output.file);
  warn_of_rounding(report, o.weights.precision);
}

void llmc_model_of(const std::string& path, const ExportOptions& o) {
  FLOTILLA_REQUIRE(!o.output.file.empty(), ErrorKind::usage, "flotilla export llmc writes a binary file; name it: -o FILE");
  FLOTILLA_REQUIRE(!o.weights.adapter, ErrorKind::usage, "leave out --adapter: llm.c has no adapters; they are merged into the weights");
  const auto step = step_in(path);
  const auto report = weights::export_llmc(step, o.output.file, o.weights.precision);
  log::info(step.string(), ": ", report.tensors, " tensors, ", report.size, " in ", to_string(o.weights.precision), "; written to ",
            o.output.file);
  warn_of_rounding(report, o.weights.precision);
}

constexpr std::array exports{Export{"hf", "RUN|step-N -o DIRECTORY", weights_of}, Export{"llmc", "RUN|step-N -o FILE", llmc_model_of},
                             Export{"sailor-plan", "PLAN", a_plan}};

const Export& export_named(const std::string& word) {
  std::vector<std::string> names;
  for (const Export& one : exports) {
    if (word == one.word) return one;
    names.emplace_back(one.word);
  }
  throw Error{ErrorKind::usage, text("flotilla export knows no ", in_quotes(word), suggestion(word, names),
                                     "; expected hf RUN|step-N, llmc RUN|step-N or sailor-plan PLAN")};
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
  t.add("export.adapter", &o.weights.adapter, "write the LoRA adapter alone, as PEFT loads it; else it is merged into the weights",
        {.alias = "adapter"});
  t.add("export.precision", &o.weights.precision, "number format of exported weights", weight_precisions(), {.alias = "precision"});
  t.add("export.shard-size", &o.weights.shard_size, "largest file of exported weights",
        {.minimum = 1, .example = "2GB", .alias = "shard-size"});
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
  FLOTILLA_REQUIRE(!operands.empty(), ErrorKind::usage,
                   "expected: flotilla export hf RUN|step-N -o DIRECTORY, llmc RUN|step-N -o FILE, or sailor-plan PLAN");
  const Export& wanted = export_named(operands[0]);
  FLOTILLA_REQUIRE(operands.size() == 2, ErrorKind::usage, "expected: flotilla export ", wanted.word, " ", wanted.operand);
  log::set_level(o.output.log_level);
  wanted.run(operands[1], o);
  return static_cast<int>(ExitCode::done);
}

}  // namespace flotilla::app
