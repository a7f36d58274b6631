#include <algorithm>

#include "app/common/sparkline.hpp"
#include "app/report/report.hpp"
#include "app/report/report_words.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::app {
namespace {

using journal::IncarnationHistory;

std::string losses_in_words(const IncarnationHistory& h) {
  if (!h.first_loss) return "";
  return text("; loss ", formatted("%.4f", *h.first_loss), " to ", formatted("%.4f", *h.last_loss));
}

std::string incarnation_text(const IncarnationHistory& h, const RunCost& cost, int width) {
  std::vector<std::pair<std::string, std::string>> lines{{"devices", mix_in_words(h)}};
  if (!h.plan.empty()) lines.emplace_back("plan", h.origin.empty() ? h.plan : text(h.plan, " (", h.origin, ")"));
  if (!h.changed.empty()) lines.emplace_back("changed", printable(h.changed, h.changed.size()));
  for (const auto& change : h.plan_changes) lines.emplace_back("plan change", change_in_words(change));
  for (const auto& correction : h.corrections) {
    for (const auto& line : journal::wrong_figures_in_words(correction)) lines.emplace_back("profile", printable(line));
    lines.emplace_back("forecast", printable(journal::correction_in_words(correction)));
  }
  lines.emplace_back("ended", end_in_words(h));
  lines.emplace_back("iterations", h.steps() == 0 ? "none" : text(h.first_step + 1, " to ", h.last_step, losses_in_words(h)));
  if (const auto first = h.seconds_to_first_step()) lines.emplace_back("first step", text(Seconds{*first}, " after its launch"));
  lines.emplace_back("lost", lost_in_words(h.lost_steps, h.lost_seconds, h.unsaved_steps));
  if (h.checkpoints > 0) lines.emplace_back("checkpoints", text(h.checkpoints, " in ", Seconds{h.checkpoint_seconds}));
  if (cost.device_hours > 0) lines.emplace_back("cost", cost_in_words(cost));
  for (auto& [key, value] : lines) {
    key = "  " + key;
    value = options::wrap(value, 0, width - 15);
  }
  return text("incarnation ", h.number, h.job.empty() ? "" : ", job " + printable(h.job), ", ", date(h.launched), ", ",
              Seconds{h.seconds()}, " on ", printable(h.host), "\n", key_values(lines));
}

template <class T>
void add_or_null(files::JsonLine& line, const char* key, const std::optional<T>& value) {
  if (value)
    line.add(key, *value);
  else
    line.add_null(key);
}

void add_cost(files::JsonLine& line, const RunCost& cost) {
  line.add("device_hours", cost.device_hours).add("node_hours", cost.node_hours);
  add_or_null(line, "billing_units", cost.billing_units);
  add_or_null(line, "cost_usd", cost.usd);
}

std::string groups_json(const IncarnationHistory& h) {
  std::string list;
  for (const auto& g : h.devices) {
    files::JsonLine line;
    line.add("device_type", g.device_type).add("zone", g.zone).add("devices", g.devices).add("hosts", g.hosts);
    list += (list.empty() ? "" : ", ") + line.text();
  }
  return "[" + list + "]";
}

std::string changes_json(const IncarnationHistory& h) {
  std::string list;
  for (const auto& c : h.plan_changes) {
    files::JsonLine line;
    line.add("step", c.step).add("plan", c.plan).add("reason", c.reason).add("refused", c.refused);
    line.add("moved_bytes", c.moved_bytes).add("pause_seconds", c.pause_seconds);
    list += (list.empty() ? "" : ", ") + line.text();
  }
  return "[" + list + "]";
}

std::string corrections_json(const IncarnationHistory& h) {
  std::string list;
  for (const auto& c : h.corrections) {
    std::string figures;
    for (const auto& f : c.figures) {
      files::JsonLine line;
      line.add("subject", f.subject).add("figure", f.figure).add("tensor_parallel", f.tensor_parallel).add("sequences", f.sequences);
      line.add("profile_seconds", f.profile_seconds).add("measured_seconds", f.measured_seconds).add("factor", f.factor());
      line.add("lower_quartile", f.lower_quartile).add("upper_quartile", f.upper_quartile);
      line.add("relative_error", f.relative_error).add("inferred", f.inferred);
      figures += (figures.empty() ? "" : ", ") + line.text();
    }
    files::JsonLine line;
    line.add("step", c.step).add("iterations", c.iterations).add("forecast_seconds", c.forecast_seconds);
    line.add("corrected_seconds", c.corrected_seconds).add("measured_seconds", c.measured_seconds).add("file", c.file);
    line.add_json("figures", "[" + figures + "]");
    list += (list.empty() ? "" : ", ") + line.text();
  }
  return "[" + list + "]";
}

std::string incarnation_json(const IncarnationHistory& h, const RunCost& cost) {
  files::JsonLine line;
  line.add("incarnation", h.number).add("job", h.job).add("host", h.host).add("launched", h.launched).add("ended", h.ended);
  line.add("running", h.running).add_json("devices", groups_json(h)).add("ranks", h.ranks).add("plan", h.plan).add("plan_origin", h.origin);
  if (!h.changed.empty()) line.add("changed", h.changed);
  line.add_json("plan_changes", changes_json(h));
  if (!h.corrections.empty()) line.add_json("profile_corrections", corrections_json(h));
  add_or_null(line, "exit_code", h.exit_code ? std::optional{static_cast<int>(*h.exit_code)} : std::nullopt);
  line.add("reason", h.reason).add("first_step", h.first_step).add("last_step", h.last_step);
  line.add("lost_steps", h.lost_steps).add("lost_seconds", h.lost_seconds);
  line.add("unsaved_steps", h.unsaved_steps);
  add_or_null(line, "seconds_to_first_step", h.seconds_to_first_step());
  add_or_null(line, "first_loss", h.first_loss);
  add_or_null(line, "last_loss", h.last_loss);
  line.add("checkpoints", h.checkpoints).add("checkpoint_seconds", h.checkpoint_seconds);
  add_cost(line, cost);
  return line.text();
}

std::string phase_in_words(const journal::PhaseHistory& phase) {
  const auto words = text("length ", phase.length, ", global batch ", phase.global_batch);
  if (!phase.first_loss) return "no iterations yet; " + words;
  return text("iterations ", phase.first_step + 1, " to ", phase.last_step, "; ", words, "; loss ", formatted("%.4f", *phase.first_loss),
              " to ", formatted("%.4f", *phase.last_loss), "; ", Seconds{phase.seconds});
}

std::string phases_json(const RunReport& report) {
  std::string list;
  for (const auto& phase : report.phases) {
    files::JsonLine line;
    line.add("phase", phase.phase).add("length", phase.length).add("global_batch", phase.global_batch);
    line.add("first_step", phase.first_step).add("last_step", phase.last_step).add("seconds", phase.seconds);
    add_or_null(line, "first_loss", phase.first_loss);
    add_or_null(line, "last_loss", phase.last_loss);
    list += (list.empty() ? "" : ", ") + line.text();
  }
  return "[" + list + "]";
}

/// Of a mixture, the losses on its sources at first and at last: "conversations 4.4081 to 1.2034, text 3.9410 to 2.6022".
std::string sources_in_words(const std::vector<journal::SourceHistory>& sources) {
  std::string words;
  for (const auto& one : sources) {
    words += text(words.empty() ? "" : ", ", printable(one.source), formatted(" %.4f", one.first_loss));
    if (one.last_step > one.first_step) words += formatted(" to %.4f", one.last_loss);
  }
  return words;
}

std::string sources_json(const RunReport& report) {
  std::string list;
  for (const auto& one : report.sources) {
    files::JsonLine line;
    line.add("source", one.source).add("first_step", one.first_step).add("first_loss", one.first_loss);
    line.add("last_step", one.last_step).add("last_loss", one.last_loss);
    list += (list.empty() ? "" : ", ") + line.text();
  }
  return "[" + list + "]";
}

std::string evaluations_json(const RunReport& report) {
  std::string list;
  for (const auto& evaluation : report.evaluations) {
    std::string sources;
    for (const auto& one : evaluation.sources)
      sources += (sources.empty() ? "" : ", ") + files::JsonLine{}.add("source", one.source).add("loss", one.loss).text();
    files::JsonLine line;
    line.add("step", evaluation.step).add("loss", evaluation.loss);
    if (!sources.empty()) line.add_json("sources", "[" + sources + "]");
    list += (list.empty() ? "" : ", ") + line.text();
  }
  return "[" + list + "]";
}

/// "loss       5.5716 ███▇▆▄▂▁ 1.4227", within 80 columns; empty without a curve.
std::string loss_curve(const RunReport& report) {
  constexpr std::size_t width = 48;
  const auto curve = sparkline(report.losses, width);
  if (curve.empty()) return {};
  const auto line = text(formatted("%.4f ", report.losses.front()), curve, formatted(" %.4f", report.losses.back()));
  return key_values_within({{"loss", line}}, 3 * table_width);  // lines are measured in bytes, and these characters have three
}

}  // namespace

std::string run_report_text(const RunReport& report, const Style& style, int width) {
  const auto totals = sums_of(report);
  const auto starts = report.incarnations.size();
  std::vector<std::pair<std::string, std::string>> lines{
      {"run", text(report.run, ": ", totals.steps, " iterations, ", starts, starts == 1 ? " incarnation" : " incarnations", ", ",
                   Seconds{totals.seconds})},
      {"lost", lost_in_words(totals.lost, totals.lost_seconds, totals.unsaved)}};
  if (report.empty_steps > 0)
    lines.emplace_back("no loss", text(report.empty_steps, " iterations, in which no token counted: they updated nothing"));
  if (const auto cost = sum_of(report.costs); cost.device_hours > 0) lines.emplace_back("cost", cost_in_words(cost));
  if (report.refusal)
    lines.emplace_back("refused", text(date(report.refusal->time), ", a start: ",
                                       end_in_words(report.refusal->exit_code, printable(report.refusal->reason, longest_line))));
  if (report.undrained) lines.emplace_back("checkpoint", printable(journal::undrained_in_words(*report.undrained)));
  for (const auto& phase : report.phases) lines.emplace_back("phase", text(printable(phase.phase), ": ", phase_in_words(phase)));
  if (!report.sources.empty()) lines.emplace_back("training", sources_in_words(report.sources));
  if (const auto validation = journal::sources_in(report.evaluations); !validation.empty())
    lines.emplace_back("validation", sources_in_words(validation));
  std::string out = key_values_within(lines, table_width) + (style.unicode ? loss_curve(report) : "");
  for (std::size_t i = 0; i < starts; ++i) out += "\n" + incarnation_text(report.incarnations[i], report.costs[i], width);
  return out;
}

std::string run_report_json(const RunReport& report) {
  const auto totals = sums_of(report);
  std::string list;
  for (std::size_t i = 0; i < report.incarnations.size(); ++i)
    list += (list.empty() ? "" : ", ") + incarnation_json(report.incarnations[i], report.costs[i]);
  files::JsonLine line;
  line.add("format", "flotilla-report").add("version", 1).add("run", report.run).add("steps", totals.steps);
  line.add("empty_steps", report.empty_steps);
  line.add("lost_steps", totals.lost).add("lost_seconds", totals.lost_seconds);
  line.add("unsaved_steps", totals.unsaved).add("seconds", totals.seconds);
  add_cost(line, sum_of(report.costs));
  if (!report.phases.empty()) line.add_json("phases", phases_json(report));
  if (!report.sources.empty()) line.add_json("sources", sources_json(report));
  if (!report.evaluations.empty()) line.add_json("evaluations", evaluations_json(report));
  if (report.refusal)
    line.add_json("refused_start", files::JsonLine{}
                                       .add("time", report.refusal->time)
                                       .add("exit_code", static_cast<int>(report.refusal->exit_code))
                                       .add("reason", report.refusal->reason)
                                       .text());
  if (const auto& local = report.undrained) {
    files::JsonLine place;
    place.add("step", local->step).add("local", local->local).add("hosts", local->hosts);
    line.add_json("undrained_checkpoint", place.text());
  }
  line.add_json("incarnations", "[" + list + "]");
  return line.text() + "\n";
}

}  // namespace flotilla::app
