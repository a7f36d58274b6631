#include "app/report/report.hpp"

#include "app/common/job_table.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::app {
namespace {

options::Table report_table(RunReportOptions& o) {
  options::Table t;
  t.section("report", "What the devices cost");
  t.add("report.price", &o.price, "price of a device, such as A100-40=2.50USD/h", {.value = "TYPE=USD/h", .alias = "price"});
  t.add("report.billing", &o.billing, "a device's billing units, such as A100-40=16units/h; else what flotilla submit read from the site",
        {.value = "TYPE=units/h", .alias = "billing"});
  add_output(t, o.output);
  return t;
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
  const Prices prices{o.price, o.billing, {}, table.describe("report.price"), table.describe("report.billing"), {}};
  const auto known = prices_of_run(operands.front(), report.incarnations, prices);
  for (const auto& incarnation : report.incarnations) report.costs.push_back(cost_of(incarnation, known));
  const bool to_terminal = o.output.file.empty();
  write_output(o.output,
               o.output.json ? run_report_json(report) : run_report_text(report, to_terminal ? output_style() : Style{}, output_width()));
  return static_cast<int>(ExitCode::done);
}

}  // namespace flotilla::app
