#include "app/import/published_run.hpp"

#include <cmath>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/nearest.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/files/published_runs.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/published/comparison.hpp"
#include "flotilla/published/express.hpp"

namespace flotilla::app {
namespace {

/// The run that --run names, else the file's only one.
published::Run chosen_run(const std::string& path, const std::string& id) {
  auto runs = files::read_published_runs(path);
  FLOTILLA_REQUIRE(!runs.empty(), ErrorKind::bad_input, path, " has no run");
  FLOTILLA_REQUIRE(!id.empty() || runs.size() == 1, ErrorKind::usage, path, " has ", runs.size(), " runs; name one: --run ",
                   printable(runs.front().id), " (flotilla validate ", path, " --runs lists them)");
  std::vector<std::string> known;
  for (auto& run : runs) {
    if (id.empty() || run.id == id) return std::move(run);
    known.push_back(run.id);
  }
  throw Error{ErrorKind::bad_input,
              text(path, " has no run ", in_quotes(id), suggestion(id, known), " (flotilla validate ", path, " --runs lists them)")};
}

std::string signed_percent(double share) { return text(share < 0 ? "-" : "+", std::lround(std::abs(share) * 1000) / 10.0, " %"); }

std::string in_words(const published::Comparison& c, const std::string& plan, const std::string& cluster) {
  std::string lines = text("plan      ", plan, "\ncluster   ", cluster, "\nruntime   ", c.runtime, "\n");
  lines += text("forecast  ", c.forecast, " an iteration, 90 % within ", std::lround(100 * c.relative_error), " %",
                c.fits ? "" : "; out of memory", "\n");
  if (c.run.measured.iteration)
    lines += text("measured  ", *c.run.measured.iteration, "; the forecast is off by ", signed_percent(c.time_error().value_or(0)), "\n");
  if (c.run.measured.out_of_memory) lines += "measured  out of memory\n";
  if (c.memory && c.run.measured.memory)
    lines += text("memory    ", *c.memory, ", measured ", *c.run.measured.memory, "; off by ", signed_percent(c.memory_error().value_or(0)),
                  "\n");
  return lines;
}

std::string as_json(const published::Comparison& c, const std::string& plan, const std::string& cluster) {
  files::JsonLine line;
  line.add("run", c.run.id).add("plan", plan).add("cluster", cluster).add("runtime", c.runtime).add("forecast_seconds", c.forecast.value);
  line.add("relative_error", c.relative_error).add("fits", c.fits).add("measured_out_of_memory", c.run.measured.out_of_memory);
  if (c.run.measured.iteration) line.add("measured_seconds", c.run.measured.iteration->value);
  if (c.memory) line.add("forecast_bytes", c.memory->count);
  if (c.run.measured.memory) line.add("measured_bytes", c.run.measured.memory->count);
  return line.text() + "\n";
}

}  // namespace

Imported a_published_run(const std::string& path, const ImportOptions& o) {
  FLOTILLA_REQUIRE(!o.output.file.empty(), ErrorKind::usage,
                   "flotilla import published writes a directory with the run's plan and cluster; name it: -o DIRECTORY");
  const published::Run run = chosen_run(path, o.run);
  const auto catalogue = files::built_in_catalogue();
  const auto comparison = published::compare(run, catalogue);
  const auto expression = published::express(run, catalogue);
  FLOTILLA_REQUIRE(comparison.is_forecast() && expression.run, ErrorKind::unavailable, path, ": run ", in_quotes(run.id),
                   " is not forecast: ", comparison.reason);
  const std::filesystem::path folder{o.output.file};
  files::make_own_folder(folder);
  const auto plan = (folder / "plan.json").string(), cluster = (folder / "cluster.json").string();
  files::write_library(cluster, {expression.run->profile, {expression.run->plan.model}});
  files::write_plan(plan, expression.run->plan);
  return {o.output.json ? as_json(comparison, plan, cluster) : in_words(comparison, plan, cluster),
          text("forecast it under other plans: flotilla simulate ", plan, " --profiles ", cluster, " --runtime ", comparison.runtime)};
}

}  // namespace flotilla::app
