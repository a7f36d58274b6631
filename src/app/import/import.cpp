#include "app/import/import.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "app/common/job_table.hpp"
#include "app/common/library_model.hpp"
#include "app/import/published_run.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/files/bench_file.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/measurements.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/sailor.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/slurm/host_list.hpp"
#include "flotilla/weights/llmc.hpp"
#include "flotilla/weights/load.hpp"
#include "flotilla/weights/pretrained.hpp"

namespace flotilla::app {
namespace {

/// Which options an import understands.
enum class Understands { none, plans, reports, runs };
/// What -o names: a file for the text, or a folder that the import makes itself.
enum class Makes { file, folder };

/// One kind of published data: its word on the command line, and what becomes of the operand.
struct Import {
  const char* word;
  const char* operand;
  Understands options;
  Imported (*run)(const std::string& path, const ImportOptions&);
  Makes makes = Makes::file;
};

Imported a_library(const std::string& path, const ImportOptions&) {
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
std::string job_section(const std::filesystem::path& folder, const ImportOptions& o) {
  const auto name = files::json_string(folder.string());
  return o.output.json ? text("{\"model\": {\"weights\": ", name, "}}\n") : text("[model]\nweights = ", name, "\n");
}

/// As the program may be started elsewhere.
std::filesystem::path absolute_name(const std::string& path) { return std::filesystem::absolute(path).lexically_normal(); }

Imported a_hugging_face_model(const std::string& path, const ImportOptions& o) {
  const auto folder = absolute_name(path);
  const auto config = files::read_hugging_face_config(folder / "config.json");
  model::require_executable(config, (folder / "config.json").string());
  const weights::Pretrained pretrained{folder, config};
  if (const auto unused = pretrained.unused(); !unused.empty()) log::info(weights::unused_in_words(folder, unused));
  if (const auto zero = pretrained.scan(); !zero.empty()) log::info(weights::zero_in_words(zero));
  return {job_section(folder, o), text(config.family, ", ", model::parameter_count(config), " parameters, ", pretrained.size(), " in ",
                                       pretrained.precisions(), ", ", pretrained.files(), pretrained.files() == 1 ? " file" : " files")};
}

Imported an_llmc_model(const std::string& path, const ImportOptions& o) {
  FLOTILLA_REQUIRE(!o.output.file.empty(), ErrorKind::usage,
                   "flotilla import llmc writes the directory of a Hugging Face model; name it: -o DIRECTORY");
  const auto [config, precision] = weights::read_llmc_header(path);
  const auto report = weights::import_llmc(path, o.output.file);
  return {job_section(absolute_name(o.output.file), o),
          text("gpt2, ", model::parameter_count(config), " parameters, ", report.size, " in ", to_string(precision))};
}

bool are_of_the_same(const bench::Series& a, const bench::Series& b) {
  return a.program == b.program && a.quantity == b.quantity && a.hosts == b.hosts;
}

/// A report with these series, in place of those that it had of the same.
template <std::vector<bench::Series> (*read)(const std::filesystem::path&)>
Imported measurements(const std::string& path, const ImportOptions& o) {
  auto report = o.report.empty() ? bench::BenchReport{} : files::read_bench(o.report);
  auto all = read(path);
  for (auto& series : all) {
    if (!o.hosts.empty()) series.hosts = slurm::expand_host_list(o.hosts, "--hosts");
    std::erase_if(report.imported, [&](const auto& earlier) { return are_of_the_same(earlier, series); });
  }
  report.imported.insert(report.imported.end(), all.begin(), all.end());
  return {files::bench_to_json(report),
          text(all.size(), all.size() == 1 ? " quantity" : " quantities", " measured by ", printable(all.front().program))};
}

constexpr std::array<Import, 8> imports{Import{"hf", "DIRECTORY", Understands::none, a_hugging_face_model},
                                        Import{"llmc", "FILE -o DIRECTORY", Understands::none, an_llmc_model, Makes::folder},
                                        Import{"sailor-profiles", "DIRECTORY", Understands::none, a_library},
                                        Import{"sailor-plan", "FILE", Understands::plans, a_plan},
                                        Import{"published", "FILE -o DIRECTORY", Understands::runs, a_published_run, Makes::folder},
                                        Import{"nccl-tests", "FILE", Understands::reports, measurements<files::read_nccl_tests>},
                                        Import{"nvbandwidth", "FILE", Understands::reports, measurements<files::read_nvbandwidth>},
                                        Import{"osu", "FILE", Understands::reports, measurements<files::read_osu>}};

/// "hf DIRECTORY, sailor-profiles DIRECTORY, ... or osu FILE".
std::string all_imports() {
  std::string words;
  for (const Import& import : imports)
    words += text(&import == &imports.front() ? "" : &import == &imports.back() ? " or " : ", ", import.word, " ", import.operand);
  return words;
}

/// An option that would change nothing is a misunderstanding.
void require_understood(const Import& import, const ImportOptions& o) {
  FLOTILLA_REQUIRE(import.options == Understands::plans || (o.profiles.empty() && o.model.empty() && o.global_batch == 0), ErrorKind::usage,
                   "leave out --profiles, --model.name and --training.global-batch: flotilla import ", import.word, " does not use them");
  FLOTILLA_REQUIRE(import.options == Understands::reports || (o.report.empty() && o.hosts.empty()), ErrorKind::usage,
                   "leave out --report and --hosts: flotilla import ", import.word, " does not use them");
  FLOTILLA_REQUIRE(import.options == Understands::runs || o.run.empty(), ErrorKind::usage, "leave out --run: flotilla import ", import.word,
                   " does not use it");
}

const Import& require(const std::string& word) {
  std::vector<std::string> names;
  for (const Import& import : imports) {
    if (word == import.word) return import;
    names.emplace_back(import.word);
  }
  throw Error{ErrorKind::usage, text("flotilla import knows no ", in_quotes(word), suggestion(word, names), "; expected ", all_imports())};
}

}  // namespace

options::Table import_table(ImportOptions& o) {
  options::Table t;
  t.section("import", "Importing");
  t.add("import.profiles", &o.profiles, "profile library that knows the plan's model and device types",
        {.value = "FILE", .unset = "none", .alias = "profiles"});
  t.add("import.report", &o.report, "report of flotilla bench that measurements of other programs are added to",
        {.value = "FILE", .unset = "a new one", .alias = "report"});
  t.add("import.hosts", &o.hosts, "nodes that the measurements were made on, as Slurm lists them",
        {.value = "NODES", .unset = "what the file says", .example = "n[1-2]", .alias = "hosts"});
  t.add("import.run", &o.run, "of a file of published runs, the one to import",
        {.value = "ID", .unset = "the file's only one", .alias = "run"});
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
  FLOTILLA_REQUIRE(!operands.empty(), ErrorKind::usage, "expected: flotilla import ", all_imports());
  const Import& import = require(operands[0]);
  FLOTILLA_REQUIRE(operands.size() == 2, ErrorKind::usage, "expected: flotilla import ", import.word, " ", import.operand);
  require_understood(import, o);
  log::set_level(o.output.log_level);
  const Imported imported = import.run(operands[1], o);
  auto output = o.output;
  if (import.makes == Makes::folder) output.file.clear();
  write_output(output, imported.text);
  log::info(imported.summary, o.output.file.empty() ? "" : "; written to " + o.output.file);
  return static_cast<int>(ExitCode::done);
}

}  // namespace flotilla::app
