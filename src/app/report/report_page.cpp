#include "app/report/report_page.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "app/common/forecast_figures.hpp"
#include "app/common/plan_drawing.hpp"
#include "app/report/report_words.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/monitor/forecast_comparison.hpp"
#include "flotilla/page/document.hpp"
#include "flotilla/page/plots.hpp"

namespace flotilla::app {
namespace {

using journal::IncarnationHistory;
using journal::StepRecord;
using page::Colour;
using page::Markup;

constexpr std::size_t most_rows_of_incarnations = 14;

using Steps = std::vector<StepRecord>;
using Figure = double StepRecord::*;

page::PlotAxis iterations() { return {.label = "iteration"}; }

std::vector<page::Point> points_of(const Steps& steps, Figure figure) {
  std::vector<page::Point> points;
  for (const auto& step : steps) points.push_back({static_cast<double>(step.step), step.*figure});
  return points;
}

/// Each point is the mean of those around it, 1 % of all of them: what a reader would draw through the noise.
std::vector<page::Point> smooth(const std::vector<page::Point>& points) {
  const std::size_t half = points.size() / 200;
  std::vector<page::Point> out;
  double sum = 0;
  std::size_t first = 0, end = 0, counted = 0;
  const auto add = [&](double value, double sign) {
    if (!std::isfinite(value)) return;
    sum += sign * value;
    sign > 0 ? ++counted : --counted;
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (; end < points.size() && end <= i + half; ++end) add(points[end].y, 1);
    for (; first + half < i; ++first) add(points[first].y, -1);
    out.push_back({points[i].x, counted > 0 ? sum / static_cast<double>(counted) : std::numeric_limits<double>::quiet_NaN()});
  }
  return out;
}

/// What was measured, thin, and the line through it, which has the name.
void add_measured(page::LinePlot& plot, const std::string& name, const std::vector<page::Point>& points, Colour colour) {
  if (points.empty()) return;
  const bool noisy = points.size() > 200;
  if (noisy) plot.lines.push_back({"", points, colour, page::Line::Look::faint});
  plot.lines.push_back({name, noisy ? smooth(points) : points, colour, page::Line::Look::plain});
}

Colour colour_of_end(const IncarnationHistory& h) {
  if (h.running) return Colour::green;
  if (!h.exit_code) return Colour::vermillion;
  return *h.exit_code == ExitCode::done || *h.exit_code == ExitCode::requeue ? Colour::grey : Colour::vermillion;
}

/// Where a start followed an end, and where the plan changed on the way.
std::vector<page::PlotEvent> events_of(const RunReport& report) {
  std::vector<page::PlotEvent> events;
  for (std::size_t i = 0; i < report.incarnations.size(); ++i) {
    const auto& h = report.incarnations[i];
    if (i > 0) {
      const auto& before = report.incarnations[i - 1];
      events.push_back({static_cast<double>(h.first_step), text(h.number),
                        text("incarnation ", h.number, " from iteration ", h.first_step + 1, "; incarnation ", before.number, ": ",
                             end_in_words(before)),
                        colour_of_end(before)});
    }
    for (const auto& change : h.plan_changes)
      if (change.refused.empty())
        events.push_back({static_cast<double>(change.step), "plan", "plan changed " + change_in_words(change), Colour::green});
  }
  return events;
}

/// Of each incarnation the last iteration that counts: later starts began before the others.
std::map<int, std::int64_t> last_that_count(const journal::Metrics& metrics) {
  std::map<int, std::int64_t> last;
  for (const auto& start : metrics.starts) {
    for (auto& [number, step] : last)
      if (number < start.incarnation) step = std::min(step, start.step);
    last.emplace(start.incarnation, std::numeric_limits<std::int64_t>::max());
  }
  return last;
}

/// Iterations that a crash undid, as one broken line with gaps.
page::Line lost_line(const journal::Metrics& metrics) {
  page::Line line{"lost", {}, Colour::vermillion, page::Line::Look::broken};
  const auto last = last_that_count(metrics);
  int incarnation = 0;
  for (const auto& step : metrics.steps) {
    const auto found = last.find(step.incarnation);
    if (found == last.end() || step.step <= found->second) continue;
    if (step.incarnation != incarnation && !line.points.empty())
      line.points.push_back({static_cast<double>(step.step), std::numeric_limits<double>::quiet_NaN()});
    incarnation = step.incarnation;
    line.points.push_back({static_cast<double>(step.step), step.loss});
  }
  if (line.points.empty()) line.name.clear();
  return line;
}

std::vector<page::Point> validation_points(const RunReport& report) {
  std::vector<page::Point> points;
  for (const auto& evaluation : report.evaluations) points.push_back({static_cast<double>(evaluation.step), evaluation.loss});
  return points;
}

/// Of a mixture; without lines for other runs.
page::LinePlot validation_by_source(const RunReport& report) {
  page::LinePlot plot;
  plot.caption = {"Validation loss by source",
                  "On the held-out data of each source of the mixture. Their mean by weights is the validation loss."};
  plot.x = iterations();
  plot.y = {.label = "loss", .logarithmic = true};
  for (const auto& evaluation : report.evaluations)
    for (const auto& [source, loss] : evaluation.sources) {
      auto line = std::ranges::find(plot.lines, source, &page::Line::name);
      if (line == plot.lines.end())
        line = plot.lines.insert(line, {source, {}, page::colour_of(plot.lines.size()), page::Line::Look::marked});
      line->points.push_back({static_cast<double>(evaluation.step), loss});
    }
  plot.events = events_of(report);
  return plot;
}

/// Likewise, of what the iterations trained on.
page::LinePlot training_by_source(const RunReport& report, const Steps& steps) {
  page::LinePlot plot;
  plot.caption = {"Training loss by source", "Of the tokens of each source of the mixture, and its mean over 1 % of the run."};
  plot.x = iterations();
  plot.y = {.label = "loss", .logarithmic = true};
  for (const auto& source : report.sources) {
    std::vector<page::Point> points;
    for (const auto& step : steps)
      for (const auto& one : step.sources)
        if (one.source == source.source) points.push_back({static_cast<double>(step.step), one.loss});
    add_measured(plot, source.source, points, page::colour_of(static_cast<std::size_t>(&source - report.sources.data())));
  }
  plot.events = events_of(report);
  return plot;
}

page::LinePlot loss_plot(const RunReport& report, const journal::Metrics& metrics, const Steps& steps) {
  page::LinePlot plot;
  plot.caption = {
      "Loss",
      "Mean over the tokens of a batch. Vertical lines are starts after the first one: their tooltips, and the values below, say what "
      "ended the one before."};
  plot.x = iterations();
  plot.y = {.label = "loss", .logarithmic = true};
  add_measured(plot, "training", points_of(steps, &StepRecord::loss), Colour::blue);
  plot.lines.push_back(lost_line(metrics));
  if (auto points = validation_points(report); !points.empty())
    plot.lines.push_back({"validation", std::move(points), Colour::orange, page::Line::Look::marked});
  plot.events = events_of(report);
  return plot;
}

page::LinePlot plain_plot(const RunReport& report, const Steps& steps, page::Caption caption, page::PlotAxis y, Figure figure,
                          const std::string& name) {
  page::LinePlot plot;
  plot.caption = std::move(caption);
  plot.x = iterations();
  plot.y = std::move(y);
  add_measured(plot, name, points_of(steps, figure), Colour::blue);
  plot.events = events_of(report);
  return plot;
}

page::LinePlot step_time_plot(const RunReport& report, const journal::Metrics& metrics, const Steps& steps) {
  auto plot =
      plain_plot(report, steps, {"Time of an iteration", "Measured, beside what was forecast for each incarnation and its error bar."},
                 {.label = "time", .quantity = page::Quantity::seconds, .from_zero = true}, &StepRecord::step_seconds, "measured");
  const double gap = std::numeric_limits<double>::quiet_NaN();
  page::Line forecast{"forecast", {}, Colour::orange, page::Line::Look::plain}, bar{"", {}, Colour::orange, page::Line::Look::broken};
  for (const auto& record : metrics.forecasts) {
    const auto found = std::ranges::find(report.incarnations, record.incarnation, &IncarnationHistory::number);
    if (found == report.incarnations.end()) continue;
    const double from = static_cast<double>(found->first_step + 1), to = static_cast<double>(found->last_step), f = record.forecast_seconds;
    for (const auto& point : {page::Point{from, f}, page::Point{to, f}, page::Point{to, gap}}) forecast.points.push_back(point);
    const simulate::ErrorBar edges{Seconds{f}, record.relative_error};
    for (const double edge : {edges.low().value, edges.high().value})
      for (const auto& point : {page::Point{from, edge}, page::Point{to, edge}, page::Point{to, gap}}) bar.points.push_back(point);
  }
  if (forecast.points.empty()) return plot;
  plot.lines.push_back(std::move(bar));
  plot.lines.push_back(std::move(forecast));
  return plot;
}

template <class Record, class Value>
double sum(const std::vector<Record>& records, Value Record::*member) {
  double all = 0;
  for (const auto& record : records) all += std::invoke(member, record);
  return all;
}

page::BarChart wall_time_chart(const RunReport& report, const journal::Metrics& metrics, const Steps& steps) {
  double kept = 0, starting = 0, between = 0, inside = 0;
  for (const auto& step : steps) kept += step.step_seconds;
  for (std::size_t i = 0; i < report.incarnations.size(); ++i) {
    const auto& h = report.incarnations[i];
    inside += h.seconds();
    if (const auto first = h.seconds_to_first_step()) starting += *first;
    if (i > 0 && h.launched > report.incarnations[i - 1].ended) between += h.launched - report.incarnations[i - 1].ended;
  }
  // What the first iteration itself took is an iteration's.
  for (const auto& started : metrics.started) starting -= std::min(starting, started.first_step_seconds);
  const double lost = sums_of(report).lost_seconds, saving = sum(metrics.checkpoints, &journal::CheckpointRecord::pause);
  const double evaluating = sum(metrics.evaluations, &journal::EvaluationRecord::seconds);
  const double other = std::max(0.0, inside - kept - lost - starting - saving - evaluating);
  page::BarChart chart;
  chart.caption = {"Where the time went", "From the first launch to the last record. Lost: iterations that were repeated after a crash."};
  chart.x = {.label = "time", .quantity = page::Quantity::seconds, .from_zero = true};
  chart.parts = {{Colour::blue, "iterations"},          {Colour::vermillion, "lost iterations"}, {Colour::sky, "starting"},
                 {Colour::green, "checkpoints"},        {Colour::orange, "evaluation"},          {Colour::purple, "other"},
                 {Colour::grey, "between incarnations"}};
  chart.rows.push_back({"run", {kept, lost, starting, saving, evaluating, other, between}});
  return chart;
}

page::Gantt incarnations_gantt(const RunReport& report) {
  const auto& all = report.incarnations;
  const bool one_row = all.size() > most_rows_of_incarnations;
  page::Gantt gantt;
  gantt.caption = {"Incarnations",
                   text("Since ", date(all.front().launched), ". Lost is drawn at the end of the incarnation that lost it.")};
  gantt.x = {.label = "time since the first launch", .quantity = page::Quantity::seconds, .from_zero = true};
  gantt.legend = {{Colour::sky, "starting"}, {Colour::blue, "training"}, {Colour::vermillion, "lost"}};
  if (one_row) gantt.rows = {text(all.size(), " incarnations")};
  for (const auto& h : all) {
    if (!one_row) gantt.rows.push_back(text("incarnation ", h.number));
    if (h.launched <= 0) continue;
    const std::size_t row = gantt.rows.size() - 1;
    const auto since = [&](double time) { return std::max(0.0, time - all.front().launched); };
    const double begun = h.first_step_done >= h.launched ? h.first_step_done : h.ended;
    const double unsaved =
        h.unsaved_steps > 0 ? (h.ended - begun) * static_cast<double>(h.unsaved_steps) / static_cast<double>(h.steps()) : 0;
    const double lost = std::clamp(h.ended - h.lost_seconds - unsaved, begun, std::max(begun, h.ended));
    const auto kept = h.steps() - h.lost_steps - h.unsaved_steps;
    const std::string who = text("incarnation ", h.number);
    gantt.bars.push_back({row, since(h.launched), since(begun), Colour::sky, "", text(who, ": starting, ", Seconds{begun - h.launched})});
    if (lost > begun)
      gantt.bars.push_back({row, since(begun), since(lost), Colour::blue, kept > 0 ? text(h.first_step + 1, "–", h.first_step + kept) : "",
                            text(who, ": ", kept, " iterations; ended: ", end_in_words(h))});
    if (h.lost_steps + h.unsaved_steps > 0 && h.ended > lost)
      gantt.bars.push_back({row, since(lost), since(h.ended), Colour::vermillion, "",
                            text(who, ": lost ", lost_in_words(h.lost_steps, h.lost_seconds, h.unsaved_steps))});
  }
  return gantt;
}

std::string iterations_in_words(const IncarnationHistory& h) { return h.steps() == 0 ? "none" : text(h.first_step + 1, "–", h.last_step); }

std::string loss_in_words(const IncarnationHistory& h) {
  return h.first_loss ? formatted("%.4f", *h.first_loss) + " → " + formatted("%.4f", *h.last_loss) : "–";
}

Markup incarnations_table(const RunReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < report.incarnations.size(); ++i) {
    const auto& h = report.incarnations[i];
    rows.push_back({text(h.number), date(h.launched), h.job, to_string(Seconds{h.seconds()}), mix_in_words(h), iterations_in_words(h),
                    loss_in_words(h),
                    h.lost_steps + h.unsaved_steps == 0 ? "–" : lost_in_words(h.lost_steps, h.lost_seconds, h.unsaved_steps),
                    end_in_words(h)});
  }
  return page::table(
      {{"", true}, {"launched", true}, {"job"}, {"ran", true}, {"devices"}, {"iterations", true}, {"loss", true}, {"lost"}, {"ended"}},
      rows);
}

Markup plans_table(const RunReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& h : report.incarnations) {
    if (!h.plan.empty()) rows.push_back({text(h.number), h.plan, h.origin});
    if (!h.changed.empty()) rows.push_back({text(h.number), h.changed, "options changed"});
    for (const auto& change : h.plan_changes) rows.push_back({"", change_in_words(change), change.refused.empty() ? "changed" : "refused"});
  }
  return rows.empty()
             ? Markup{}
             : page::folded("Plans and changed options, incarnation by incarnation", page::table({{"", true}, {"plan"}, {"from"}}, rows));
}

Markup phases_table(const RunReport& report) {
  std::vector<std::vector<std::string>> rows;
  const auto loss = [](const std::optional<double>& value) { return value ? formatted("%.4f", *value) : std::string{"–"}; };
  for (const auto& phase : report.phases)
    rows.push_back({phase.phase, text(phase.first_step + 1, " to ", phase.last_step), text(phase.length), text(phase.global_batch),
                    loss(phase.first_loss), loss(phase.last_loss), to_string(Seconds{phase.seconds})});
  if (rows.empty()) return {};
  return page::table(
      {{"phase"}, {"iterations"}, {"length", true}, {"global batch", true}, {"first loss", true}, {"last loss", true}, {"time", true}},
      rows);
}

Markup slow_table(const journal::Metrics& metrics) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& slow : metrics.slow) {
    const std::string who = !slow.group.empty() ? slow.group
                            : slow.peer >= 0    ? text("link from rank ", slow.rank, " to ", slow.peer)
                                                : text("rank ", slow.rank);
    rows.push_back({text(slow.step), text(who, " on ", slow.host, slow.link.empty() ? "" : ", " + slow.link),
                    slow.over ? "no longer slow" : formatted("%.2f times as long as expected", slow.factor),
                    slow.over ? "–" : to_string(Seconds{slow.cost_seconds})});
  }
  return rows.empty() ? Markup{} : page::table({{"iteration", true}, {"device or link"}, {"found"}, {"costs at most", true}}, rows);
}

Markup forecasts_table(const journal::Metrics& metrics) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& f : metrics.forecasts)
    rows.push_back({text(f.incarnation), text(Seconds{f.forecast_seconds}, " ", simulate::bar_in_words(f.relative_error)),
                    to_string(Seconds{f.measured_seconds}),
                    f.forecast_seconds > 0 ? formatted("%+.1f %%", 100 * (f.measured_seconds / f.forecast_seconds - 1)) : "–",
                    f.inside_error_bar ? "yes" : "no"});
  return rows.empty()
             ? Markup{}
             : page::table({{"incarnation", true}, {"forecast", true}, {"measured", true}, {"difference", true}, {"inside the error bar"}},
                           rows);
}

Markup corrections_table(const journal::Metrics& metrics) {
  std::vector<std::vector<std::string>> rows;
  Markup words;
  for (const auto& c : metrics.corrections) {
    words += page::paragraph(text("Incarnation ", c.incarnation, ": ", journal::correction_in_words(c), "."));
    for (const auto& f : c.figures)
      rows.push_back({text(c.incarnation), f.subject, f.figure, to_string(Seconds{f.profile_seconds}),
                      to_string(Seconds{f.measured_seconds}), formatted("%.2f", f.factor()),
                      formatted("%.2f", f.lower_quartile) + formatted(" to %.2f", f.upper_quartile), percent(f.relative_error),
                      f.inferred ? "inferred" : text("median of ", c.iterations)});
  }
  return rows.empty() ? Markup{}
                      : page::table({{"incarnation", true},
                                     {"device type or links"},
                                     {"figure"},
                                     {"profile", true},
                                     {"measured", true},
                                     {"factor", true},
                                     {"quartiles", true},
                                     {"error bar", true},
                                     {"from"}},
                                    rows) +
                            words;
}

Seconds recent(const Steps& steps, Figure figure) {
  std::vector<double> values;
  for (std::size_t i = steps.size() - std::min<std::size_t>(50, steps.size()); i < steps.size(); ++i) values.push_back(steps[i].*figure);
  return monitor::median(std::move(values));
}

Markup tiles_of(const RunReport& report, const Steps& steps) {
  const auto sums = sums_of(report);
  const auto starts = report.incarnations.size();
  std::vector<page::Tile> tiles{{"iterations", text(sums.steps), text(starts, starts == 1 ? " incarnation" : " incarnations")}};
  if (!steps.empty()) {
    if (!report.losses.empty())
      tiles.push_back({"loss", formatted("%.4f", report.losses.back()), text("from ", formatted("%.4f", report.losses.front()))});
    if (report.empty_steps > 0) tiles.push_back({"no loss", text(report.empty_steps), "iterations: no token counted"});
    if (const auto points = validation_points(report); !points.empty())
      tiles.push_back(
          {"validation loss", formatted("%.4f", points.back().y), text("at iteration ", static_cast<std::int64_t>(points.back().x))});
    tiles.push_back({"tokens/s", journal::short_number(recent(steps, &StepRecord::tokens_per_second).value), "median of the last 50"});
    tiles.push_back({"MFU", percent(recent(steps, &StepRecord::share_of_peak).value), "of the measured peak"});
  }
  tiles.push_back({"time", to_string(Seconds{sums.seconds}), "of all incarnations"});
  const auto lost = sums.lost + sums.unsaved;
  tiles.push_back({"lost", lost == 0 ? "nothing" : text(lost, lost == 1 ? " iteration" : " iterations"),
                   lost == 0 ? "" : lost_in_words(sums.lost, sums.lost_seconds, sums.unsaved)});
  return page::tiles(tiles);
}

Markup curves(const RunReport& report, const journal::Metrics& metrics, const Steps& steps) {
  if (steps.empty()) return page::paragraph("No iteration is complete.");
  Markup out = page::figure(loss_plot(report, metrics, steps));
  for (const auto& by_source : {training_by_source(report, steps), validation_by_source(report)})
    if (!by_source.lines.empty()) out += page::figure(by_source);
  out += page::figure(plain_plot(report, steps, {"Throughput", "Over all ranks."}, {.label = "tokens/s", .from_zero = true},
                                 &StepRecord::tokens_per_second, "tokens/s"));
  out += page::figure(plain_plot(report, steps, {"Gradient norm", "Before clipping."}, {.label = "norm", .logarithmic = true},
                                 &StepRecord::gradient_norm, "norm"));
  return out;
}

Markup time_and_losses(const RunReport& report, const journal::Metrics& metrics, const Steps& steps) {
  Markup out = page::figure(incarnations_gantt(report)) + page::figure(wall_time_chart(report, metrics, steps));
  if (const auto cost = sum_of(report.costs); cost.device_hours > 0) out += page::facts({{"cost", cost_in_words(cost)}});
  return out + phases_table(report) + incarnations_table(report) + plans_table(report);
}

Markup forecast_beside_measured(const RunReport& report, const RunRecords& records, const Steps& steps) {
  Markup out;
  if (!steps.empty()) out += page::figure(step_time_plot(report, records.metrics, steps));
  out += forecasts_table(records.metrics) + corrections_table(records.metrics);
  if (records.measured) out += page::figure(measured_gantt(*records.measured));
  if (!records.forecast) return out + page::paragraph("The plan cannot be forecast again. " + records.no_forecast);
  const auto& [plan, forecast, of_plan] = *records.forecast;
  return out + page::figure(forecast_gantt(forecast, of_plan)) + page::figure(time_chart(of_plan));
}

Markup plan_and_memory(const RunRecords& records) {
  if (!records.forecast) return {};
  return page::figure(drawing_of(records.forecast->plan)) + page::figure(memory_chart(records.forecast->report)) +
         page::paragraph("Memory is forecast: the arena exactly, the process by a stated bound.");
}

std::string lead_of(const RunReport& report) {
  const auto& last = report.incarnations.back();
  return text(last.running ? "It runs" : "It ended", last.running ? ", since " : " ", date(last.running ? last.launched : last.ended),
              last.running ? "." : text(": ", end_in_words(last), "."));
}

}  // namespace

std::string run_report_page(const RunReport& report, const RunRecords& records) {
  const auto steps = journal::effective_steps(records.metrics);
  const std::string title = "Run " + report.run;
  return page::document(title, page::heading(title, lead_of(report)) + tiles_of(report, steps) + curves(report, records.metrics, steps) +
                                   page::section("Incarnations, and what was lost", time_and_losses(report, records.metrics, steps)) +
                                   page::section("Slow devices and links", slow_table(records.metrics)) +
                                   page::section("Plan and memory", plan_and_memory(records)) +
                                   page::section("Forecast beside measured", forecast_beside_measured(report, records, steps)));
}

}  // namespace flotilla::app
