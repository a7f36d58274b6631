#include "app/common/forecast_figures.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "app/common/report_lines.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

using page::Colour;
using simulate::Activity;

constexpr std::size_t most_rows = 48;           // of a timeline
constexpr std::size_t most_with_transfers = 8;  // ranks whose messages have rows of their own

Colour colour_of(Activity activity) {
  switch (activity) {
    case Activity::forward: return Colour::blue;
    case Activity::backward: return Colour::green;
    case Activity::recompute: return Colour::sky;
    case Activity::tensor_collective: return Colour::purple;
    case Activity::activation_transfer: return Colour::yellow;
    case Activity::gradient_reduction: return Colour::orange;
    case Activity::optimizer: return Colour::vermillion;
    case Activity::bubble: return Colour::grey;
  }
  return Colour::grey;
}

std::string label_of(const ReportLine& line) { return text("stage ", stages_in_words(line.stages), ", ", line.ranks, " x ", line.place); }

constexpr std::array<const char*, program::category_count + 1> memory_parts{"weights",       "gradients", "optimizer", "activations",
                                                                            "communication", "workspace", "process"};
constexpr std::array<Colour, program::category_count + 1> memory_colours{Colour::blue,   Colour::green,  Colour::vermillion, Colour::sky,
                                                                         Colour::yellow, Colour::purple, Colour::grey};

/// A row of a timeline: what a rank computes, or what it sends and receives.
struct Row {
  Rank rank;
  bool computes = true;
  std::string name;
};

bool belongs(const simulate::Span& span, const Row& row) {
  return span.rank == row.rank && (span.queue == program::Queue::compute) == row.computes;
}

std::string detail_of(const simulate::Span& span) {
  return text(simulate::in_words(span.activity), ", micro-batch ", span.microbatch, ": ", Seconds{span.end - span.start}, " from ",
              span.start);
}

/// Instructions of one activity and micro-batch that follow each other are one bar.
void add_bars(page::Gantt& gantt, std::size_t index, const Row& row, const std::vector<simulate::Span>& spans, Seconds whole) {
  std::vector<simulate::Span> own;
  std::ranges::copy_if(spans, std::back_inserter(own), [&](const auto& span) { return belongs(span, row); });
  std::ranges::stable_sort(own, {}, &simulate::Span::start);
  std::vector<simulate::Span> joined;
  for (const auto& span : own) {
    const bool follows = !joined.empty() && joined.back().activity == span.activity && joined.back().microbatch == span.microbatch &&
                         (span.start - joined.back().end).value < whole.value / 500;
    if (follows)
      joined.back().end = std::max(joined.back().end, span.end);
    else
      joined.push_back(span);
  }
  for (const auto& span : joined) {
    const bool numbered = row.computes && span.activity != Activity::optimizer && span.activity != Activity::gradient_reduction;
    gantt.bars.push_back(
        {index, span.start.value, span.end.value, colour_of(span.activity), numbered ? text(span.microbatch) : "", detail_of(span)});
  }
}

page::Gantt gantt_of(std::vector<Row> rows, const std::vector<simulate::Span>& spans) {
  page::Gantt gantt;
  gantt.x = {.label = "time", .quantity = page::Quantity::seconds, .from_zero = true};
  std::erase_if(rows, [&](const Row& row) { return std::ranges::none_of(spans, [&](const auto& span) { return belongs(span, row); }); });
  if (rows.size() > most_rows) rows.resize(most_rows);
  Seconds whole;
  for (const auto& span : spans) whole = std::max(whole, span.end);
  for (const auto& row : rows) {
    add_bars(gantt, gantt.rows.size(), row, spans, whole);
    gantt.rows.push_back(row.name);
  }
  std::map<Activity, Colour> seen;
  for (const auto& span : spans) seen.emplace(span.activity, colour_of(span.activity));
  for (const auto& [activity, colour] : seen) gantt.legend.push_back({colour, simulate::in_words(activity)});
  return gantt;
}

void add_rank(std::vector<Row>& rows, Rank rank, const std::string& name, std::size_t ranks) {
  rows.push_back({rank, true, name});
  if (ranks <= most_with_transfers) rows.push_back({rank, false, "transfers"});
}

std::string how_many(std::size_t all, const char* what) {
  const std::size_t shown = all <= most_with_transfers ? all : std::min(all, most_rows);
  return shown < all ? text("The first ", shown, " of ", all, " ", what, ". ") : "";
}

}  // namespace

page::BarChart time_chart(const simulate::Report& report) {
  page::BarChart chart;
  chart.caption = {"Where the time goes", "Mean over the devices of each stage. Bubble is waiting: filling and draining the pipeline."};
  chart.x = {.label = "time of an iteration", .quantity = page::Quantity::seconds, .from_zero = true};
  const auto lines = lines_of(report);
  std::vector<Activity> shown;
  for (int a = 0; a < simulate::activity_count; ++a) {
    const auto activity = static_cast<Activity>(a);
    if (std::ranges::none_of(lines, [&](const auto& line) { return line.breakdown[activity].value > 0; })) continue;
    shown.push_back(activity);
    chart.parts.push_back({colour_of(activity), simulate::in_words(activity)});
  }
  for (const auto& line : lines) {
    chart.rows.push_back({label_of(line), {}});
    for (const auto activity : shown) chart.rows.back().parts.push_back(line.breakdown[activity].value);
  }
  return chart;
}

page::BarChart memory_chart(const simulate::Report& report) {
  page::BarChart chart;
  chart.caption = {"Where the memory goes", "Of the fullest device of each stage. The line is what the device has."};
  chart.x = {.label = "memory", .quantity = page::Quantity::bytes, .from_zero = true};
  chart.limit_is = "device has";
  for (std::size_t c = 0; c < memory_parts.size(); ++c) chart.parts.push_back({memory_colours.at(c), memory_parts.at(c)});
  for (const auto& line : lines_of(report)) {
    const auto& memory = line.fullest->memory;
    page::BarRow row{label_of(line), {}};
    for (const Bytes bytes : memory.categories) row.parts.push_back(static_cast<double>(bytes.count));
    row.parts.push_back(static_cast<double>(memory.runtime_constant.count));
    if (line.fullest->limit) row.limit = static_cast<double>(line.fullest->limit->count);
    chart.rows.push_back(std::move(row));
  }
  return chart;
}

page::Gantt forecast_gantt(const simulate::Forecast& forecast, const simulate::Report& report) {
  std::vector<Row> rows;
  for (std::size_t k = 0; k < forecast.kinds.size(); ++k) {
    const auto& kind = forecast.kinds[k];
    const auto& of = report.rows.at(k);
    const std::string more = kind.ranks.size() > 1 ? text(" and ", kind.ranks.size() - 1, " more") : "";
    add_rank(rows, kind.ranks.front(), text("stage ", stages_in_words(of.stages), ", rank ", kind.ranks.front(), more),
             forecast.kinds.size());
  }
  auto gantt = gantt_of(std::move(rows), forecast.timeline);
  gantt.caption = {"One iteration as forecast", how_many(forecast.kinds.size(), "kinds of rank") +
                                                    "A row is a rank and those with the same timeline. Numbers are micro-batches."};
  return gantt;
}

page::Gantt measured_gantt(const MeasuredRun& run) {
  std::vector<Row> rows;
  for (const auto& [rank, name] : run.processes) add_rank(rows, Rank{rank}, name, run.processes.size());
  auto gantt = gantt_of(std::move(rows), run.spans);
  gantt.caption = {"The last iteration as measured",
                   how_many(run.processes.size(), "ranks") + "Each rank's clock starts with its own iteration. Numbers are micro-batches."};
  return gantt;
}

}  // namespace flotilla::app
