#include "app/import/import.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "app/common/job_table.hpp"
#include "app/common/library_model.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/sailor.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/weights/pretrained.hpp"

namespace flotilla::app {
namespace {

/// A file of ours, and what is in it, for people.
struct Imported {
  std::string text, summary;
};

/// One kind of published data: its word on the command line, and what becomes of the operand.
struct Import {
  const char* word;
  const char* operand;
  Imported (*run)(const std::string& path, const ImportOptions&);
};

Imported a_library(const std::string& path, const ImportOptions& o) {
  FLOTILLA_REQUIRE(o.profiles.empty() && o.model.empty() && o.global_batch == 0, ErrorKind::usage,
                   "flotilla import sailor-profiles takes every model of the folder; leave out --profiles, --model.name and "
                   "--training.global-batch");
  const auto import = files::read_sailor_profiles(path);
  for (const std::string& note : import.notes) log::warning(note);
  const cluster::Profile& p = import.library.profile;
  return {files::library_to_json(import.library),
          text(p.device_types.size(), " device types, ", import.library.models.size(), " models, ", p.layer_times.size(), " layer times, ",
               p.layer_sizes.size(), " layer sizes, ", p.link_fits.size(), " link fits, ", p.egress_prices.size(), " egress prices")};
}

/// The option, else what the plan says, else the library's only one.
std::string model_name(const files::Json& document, const files::Library& library, const ImportOptions& o) {
  if (!o.model.empty()) return o.model;
  if (document.is_object() && document.has("model") && document.at("model").is_string()) return document.get_string("model");
  if (library.models.size() == 1) return library.models.front().name;
  document.refuse("does not say which model it is for; add --model.name NAME");
}

void require_known_types(const plan::Plan& plan, const cluster::Profile& profile, const ImportOptions& o, const std::string& source) {
  if (o.profiles.empty()) return;
  std::vector<std::string> known;
  for (const auto& type : profile.device_types) known.push_back(type.name);
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      FLOTILLA_REQUIRE(cluster::find_type(profile, replica.device_type), ErrorKind::bad_input, source, ": device type ",
                       in_quotes(replica.device_type), " of the plan is not in ", o.profiles, suggestion(replica.device_type, known));
}

Imported a_plan(const std::string& path, const ImportOptions& o) {
  const auto library = o.profiles.empty() ? files::Library{} : files::read_library(o.profiles);
  const auto document = files::Json::read(path);
  const auto model = model_in(library, model_name(document, library, o));
  const auto plan = files::sailor_plan_from_json(document, model, o.global_batch > 0 ? std::optional{o.global_batch} : std::nullopt);
  require_known_types(plan, library.profile, o, path);
  return {files::plan_to_json(plan), plan::summary(plan)};
}

/// A job file's section that starts from these weights, or the same as JSON.
Imported a_hugging_face_model(const std::string& path, const ImportOptions& o) {
  FLOTILLA_REQUIRE(o.profiles.empty() && o.model.empty() && o.global_batch == 0, ErrorKind::usage,
                   "flotilla import hf takes the model as it is; leave out --profiles, --model.name and --training.global-batch");
  const auto folder = std::filesystem::absolute(path).lexically_normal();
  const auto config = files::read_hugging_face_config(folder / "config.json");
  const weights::Pretrained pretrained{folder, config};
  const auto name = files::json_string(folder.string());
  return {o.output.json ? text("{\"model\": {\"weights\": ", name, "}}\n") : text("[model]\nweights = ", name, "\n"),
          text(config.family, ", ", model::parameter_count(config), " parameters, ", pretrained.size(), " in ", pretrained.precisions(), ", ",
               pretrained.files(), " files")};
}

constexpr std::array<Import, 3> imports{Import{"hf", "DIRECTORY", a_hugging_face_model},
                                        Import{"sailor-profiles", "DIRECTORY", a_library}, Import{"sailor-plan", "FILE", a_plan}};

const Import& require(const std::string& word) {
  std::vector<std::string> names;
  for (const Import& import : imports) {
    if (word == import.word) return import;
    names.emplace_back(import.word);
  }
  throw Error{ErrorKind::usage, text("flotilla import knows no ", in_quotes(word), suggestion(word, names),
                                     "; expected hf DIRECTORY, sailor-profiles DIRECTORY or sailor-plan FILE")};
}

}  // namespace

options::Table import_table(ImportOptions& o) {
  options::Table t;
  t.section("import", "Importing");
  t.add("import.profiles", &o.profiles, "profile library that knows the plan's model and device types",
        {.value = "FILE", .unset = "none", .alias = "profiles"});
  t.section("model", "The transformer");
  t.add("model.name", &o.model, "the plan's model: one of the library's, or a built-in one", {.value = "NAME", .unset = "the plan's own"});
  t.section("training", "The training run");
  t.add("training.global-batch", &o.global_batch, "global batch size in sequences per iteration",
        {.minimum = 0, .maximum = 1 << 24, .unset = "the plan's own", .example = "1024"});
  add_output(t, o.output);
  return t;
}

BoundTable import_options() {
  auto options = std::make_shared<ImportOptions>();
  auto table = import_table(*options);
  return {options, std::move(table)};
}

int import_published(std::span<const std::string> arguments) {
  ImportOptions o;
  auto table = import_table(o);
  Job job;
  table.pass_over(job_table(job));  // a batch script may have set them for the training that follows
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  FLOTILLA_REQUIRE(!operands.empty(), ErrorKind::usage, "expected: flotilla import hf DIRECTORY, sailor-profiles DIRECTORY, or sailor-plan FILE");
  const Import& import = require(operands[0]);
  FLOTILLA_REQUIRE(operands.size() == 2, ErrorKind::usage, "expected: flotilla import ", import.word, " ", import.operand);
  log::set_level(o.output.log_level);
  const Imported imported = import.run(operands[1], o);
  write_output(o.output, imported.text);
  log::info(imported.summary, o.output.file.empty() ? "" : "; written to " + o.output.file);
  return static_cast<int>(ExitCode::done);
}

}  // namespace flotilla::app
