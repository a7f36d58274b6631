#include "app/report/report.hpp"

#include "app/common/job_table.hpp"
#include "app/report/report_page.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/journal/run_directory.hpp"

namespace flotilla::app {
namespace {

options::Table report_table(RunReportOptions& o) {
  options::Table t;
  t.section("report", "What the devices cost");
  t.add("report.price", &o.price, "price of a device, such as A100-40=2.50USD/h", {.value = "TYPE=USD/h", .alias = "price"});
  t.add("report.billing", &o.billing, "a device's billing units, such as A100-40=16units/h; else what flotilla submit read from the site",
        {.value = "TYPE=units/h", .alias = "billing"});
  t.add("report.page", &o.page, "write a page with pictures: loss, throughput, what was lost, plan, memory, forecast beside measured",
        {.value = "FILE", .unset = "none", .alias = "html"});
  t.add("report.timeline", &o.timeline, "a timeline that flotilla train --report.timeline wrote, for the page",
        {.value = "FILE", .unset = "timeline.json in the run directory, where there is one"});
  add_output(t, o.output);
  return t;
}

/// The last iteration's timeline.
std::optional<MeasuredRun> timeline_of(const std::filesystem::path& run, const std::string& file) {
  const auto in_run = run / "timeline.json";
  if (file.empty() && !files::facts_of(in_run)) return std::nullopt;
  return read_measured_run(file.empty() ? in_run : std::filesystem::path{file});
}

journal::Metrics metrics_of(const std::filesystem::path& run) {
  return files::facts_of(journal::metrics_file(run)) ? journal::read_metrics(run) : journal::Metrics{};
}

RunRecords records_of(const std::filesystem::path& run, journal::Metrics metrics, const RunReportOptions& o) {
  RunRecords records;
  records.metrics = std::move(metrics);
  records.forecast = forecast_of_run(run, records.no_forecast);
  records.measured = timeline_of(run, o.timeline);
  return records;
}

}  // namespace

BoundTable run_report_options() {
  auto options = std::make_shared<RunReportOptions>();
  auto table = report_table(*options);
  return {options, std::move(table)};
}

int report_run(std::span<const std::string> arguments) {
  RunReportOptions o;
  Job job;
  auto table = report_table(o);
  table.pass_over(job_table(job));
  const auto operands = table.read_command_line(arguments);
  FLOTILLA_REQUIRE(operands.size() == 1, ErrorKind::usage, "expected one run directory: flotilla report RUN");
  table.read_environment(options::environment());
  log::set_level(o.output.log_level);
  RunReport report{operands.front(), journal::read_history(operands.front()), {}};
  const bool to_terminal = o.output.file.empty();
  const auto style = to_terminal ? output_style() : Style{};
  const auto metrics = metrics_of(operands.front());
  report.phases = journal::phases_in(metrics);
  report.evaluations = journal::effective_evaluations(metrics);
  if (!metrics.refusals.empty() && (report.incarnations.empty() || metrics.refusals.back().incarnation > report.incarnations.back().number))
    report.refusal = metrics.refusals.back();
  report.undrained = journal::undrained(metrics);
  const auto steps = journal::effective_steps(metrics);
  for (const auto& step : steps)
    if (!step.empty()) report.losses.push_back(step.loss);
  report.empty_steps = std::ssize(steps) - std::ssize(report.losses);
  report.sources = journal::sources_in(steps);
  const Prices prices{o.price, o.billing, {}, table.describe("report.price"), table.describe("report.billing"), {}};
  const auto known = prices_of_run(operands.front(), report.incarnations, prices);
  for (const auto& incarnation : report.incarnations) report.costs.push_back(cost_of(incarnation, known));
  if (!o.page.empty()) files::write_text(o.page, run_report_page(report, records_of(operands.front(), metrics, o)));
  write_output(o.output, o.output.json ? run_report_json(report) : run_report_text(report, style, output_width()));
  return static_cast<int>(ExitCode::done);
}

}  // namespace flotilla::app
