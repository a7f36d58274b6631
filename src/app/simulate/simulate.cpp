#include "app/simulate/simulate.hpp"

#include <algorithm>
#include <iterator>

#include "app/common/job_table.hpp"
#include "app/common/pool.hpp"
#include "app/common/report_text.hpp"
#include "app/simulate/forecast_timeline.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/forecast_file.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/monitor/forecast_comparison.hpp"

namespace flotilla::app {
namespace {

/// The profile for devices of the pool, as flotilla plan sees it.
cluster::Profile on_pool(cluster::Profile profile, const cluster::Catalogue& catalogue, const plan::Plan& plan, const SimulateOptions& o,
                         const std::string& source) {
  const auto pool = read_pool(o.pool, o.pool_setting, profile, catalogue);
  require_within(pool, plan, source);
  return without_devices(std::move(profile), catalogue, pool);
}

SimulateOptions read_options(std::span<const std::string> arguments, std::string& plan) {
  SimulateOptions o;
  auto table = simulate_table(o);
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  FLOTILLA_REQUIRE(operands.size() == 1, ErrorKind::usage, "expected one plan file to forecast, got ", operands.size());
  // What the plan's file says of its forecast counts where nothing else is said; other measurements have devices of their own.
  const bool measured = table.describe("simulate.profiles").origin != options::Origin::standard;
  const auto said =
      files::forecast_options_in(files::Json::read(operands[0]), measured ? std::vector<std::string>{"pool"} : std::vector<std::string>{});
  if (!said.empty()) table.read_toml(said, operands[0] + ": forecast");
  log::set_level(o.output.log_level);
  o.pool_setting = table.describe("simulate.pool");
  note_origins(table, "simulate", o.basis);
  plan = operands[0];
  return o;
}

/// Of the ranks that were recorded, mean over them, on both sides.
void compare_work(const simulate::Forecast& forecast, const MeasuredRun& run, monitor::ForecastComparison& c) {
  if (run.spans.empty()) return;
  simulate::Breakdown theirs, ours;
  Seconds end;
  for (const auto& span : run.spans) end = std::max(end, span.end);
  const auto add = [](simulate::Breakdown& sum, const std::vector<simulate::Span>& spans, Seconds iteration, double share) {
    const auto one = simulate::compute_queue_breakdown(spans, iteration);
    for (std::size_t a = 0; a < sum.seconds.size(); ++a) sum.seconds[a] += one.seconds[a] * share;
  };
  const double share = 1 / static_cast<double>(run.processes.size());
  for (const auto& [number, name] : run.processes) {
    const auto of = [rank = Rank{number}](const std::vector<simulate::Span>& all) {
      std::vector<simulate::Span> spans;
      std::ranges::copy_if(all, std::back_inserter(spans), [rank](const auto& span) { return span.rank == rank; });
      return spans;
    };
    add(ours, of(run.spans), end, share);
    for (const auto& kind : forecast.kinds)
      if (std::ranges::binary_search(kind.ranks, Rank{number})) {
        auto spans = forecast.timeline;
        std::erase_if(spans, [&](const auto& span) { return span.rank != kind.ranks.front(); });
        add(theirs, spans, forecast.iteration, share);
      }
  }
  if (!run.iteration) c.measured = end, c.iterations = 1;
  c.forecast_work = theirs, c.measured_work = ours;
}

monitor::ForecastComparison compare(const simulate::Forecast& forecast, const simulate::Report& report, const MeasuredRun& run,
                                    const std::string& source) {
  for (const auto& [rank, name] : run.processes)
    FLOTILLA_REQUIRE(rank < report.devices, ErrorKind::bad_input, source, ": a run of rank ", rank, " and others; the plan has ranks 0 to ",
                     report.devices - 1, ", so it is not the plan of that run");
  monitor::ForecastComparison c{forecast.iteration, run.iteration.value_or(Seconds{}), forecast.relative_error, run.iterations, {}, {}};
  compare_work(forecast, run, c);
  return c;
}

}  // namespace

options::Table simulate_table(SimulateOptions& o) {
  options::Table t;
  t.section("simulate", "What the forecast rests on");
  add_forecast_basis(t, "simulate", o.basis);
  t.add("simulate.pool", &o.pool, "devices that the plan is for, as flotilla plan takes them: sizes of nodes, and how many there are",
        {.value = "TYPE[@ZONE]=COUNT[/NODE]",
         .unset = "nodes as the types have them",
         .example = "A100-40@us-central1-a=32/4",
         .alias = "pool"});
  t.add("simulate.timeline", &o.timeline, "write when each instruction would run (Perfetto's JSON)",
        {.value = "FILE", .unset = "none", .alias = "timeline"});
  t.add("simulate.measured", &o.measured, "compare with a measured run: a run directory, or a file of --report.timeline",
        {.value = "FILE", .unset = "none", .alias = "measured"});
  t.section("data", "Token files");
  add_documents(t, o.basis.separate_documents);
  add_output(t, o.output);
  return t;
}

BoundTable simulate_options() {
  auto options = std::make_shared<SimulateOptions>();
  auto table = simulate_table(*options);
  return {options, std::move(table)};
}

int simulate(std::span<const std::string> arguments) {
  std::string file;
  const auto o = read_options(arguments, file);
  const auto settings = settings_of(o.basis);
  auto plan = files::read_plan(file);
  const auto catalogue = catalogue_of(o.basis);
  const auto measured = profile_for(known_devices(o.basis).profile, o.basis, plan.model, plan.length);
  auto profile = with_catalogue(o.pool.empty() ? measured : on_pool(measured, catalogue, plan, o, file), catalogue, plan, file);
  profile = with_prices(std::move(profile), o.basis.prices, catalogue, places_of(plan));
  if (o.basis.sailor_artifact)
    require_one_price(profile);
  else
    join_nodes(profile, measured, places_of(plan), o.basis.networks);
  const Forecasting forecasting{subject_of(std::move(plan), profile, file), settings};
  if (!forecasting.subject().note.empty()) log::info(forecasting.subject().note);
  std::optional<MeasuredRun> run;
  if (!o.measured.empty()) run = read_measured_run(o.measured);
  const auto forecast = forecasting.forecast(!o.timeline.empty() || run);
  const auto report = report_on(forecasting, forecast, profile, settings);
  if (!o.timeline.empty()) files::write_text(o.timeline, forecast_trace(forecast, report, run ? &*run : nullptr));
  std::string text =
      o.output.json ? files::forecast_to_json(report) : report_text(report, o.output.file.empty() ? output_style() : Style{});
  if (run && !o.output.json) text += "\n" + key_values({{"measured", in_words(compare(forecast, report, *run, o.measured))}});
  write_output(o.output, text);
  return static_cast<int>(report.fits() ? ExitCode::done : ExitCode::no_plan);
}

}  // namespace flotilla::app
