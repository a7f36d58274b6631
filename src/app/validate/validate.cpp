#include "app/validate/validate.hpp"

#include <filesystem>

#include "app/common/job_table.hpp"
#include "app/validate/validation.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/cluster/relatives.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/published_runs.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::app {
namespace {

std::vector<published::Run> read_runs(const std::string& path) {
  const auto facts = files::facts_of(path);
  return facts && facts->type == files::FileType::folder ? files::read_published_folder(path) : files::read_published_runs(path);
}

Validation validate_all(const std::vector<published::Run>& runs, bool as_new) {
  const auto catalogue = as_new ? cluster::as_new(files::built_in_catalogue()) : files::built_in_catalogue();
  std::vector<published::Comparison> comparisons;
  comparisons.reserve(runs.size());
  for (const auto& run : runs) comparisons.push_back(published::compare(run, catalogue));
  return validation_of(std::move(comparisons));
}

}  // namespace

options::Table validate_table(ValidateOptions& o) {
  options::Table t;
  t.section("validate", "What is shown");
  t.add("validate.runs", &o.runs, "every run beside its forecast, too", {.alias = "runs"});
  t.add("validate.as-new", &o.as_new, "each device type as if it had just come out: of its figures only its vendor's", {.alias = "as-new"});
  t.add("validate.page", &o.page, "write a page with a picture: forecast against measured time",
        {.value = "FILE", .unset = "none", .alias = "html"});
  add_output(t, o.output);
  return t;
}

BoundTable validate_options() {
  auto options = std::make_shared<ValidateOptions>();
  auto table = validate_table(*options);
  return {options, std::move(table)};
}

int validate(std::span<const std::string> arguments) {
  ValidateOptions o;
  auto table = validate_table(o);
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  FLOTILLA_REQUIRE(operands.size() == 1, ErrorKind::usage, "expected a file of published runs, or a folder of them, got ", operands.size());
  log::set_level(o.output.log_level);
  const Validation validation = validate_all(read_runs(operands[0]), o.as_new);
  if (!o.page.empty()) files::write_text(o.page, validation_page(validation));
  write_output(o.output, o.output.json ? validation_json(validation) : validation_text(validation, o.runs));
  return static_cast<int>(ExitCode::done);
}

}  // namespace flotilla::app
