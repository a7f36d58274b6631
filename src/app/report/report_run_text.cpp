#include <algorithm>
#include <cstdio>
#include <ctime>

#include "app/common/pool.hpp"
#include "app/common/report_text.hpp"
#include "app/report/report.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::app {
namespace {

using journal::IncarnationHistory;

std::string mix_in_words(const IncarnationHistory& h) {
  std::string words;
  for (const auto& group : h.devices)
    words += text(words.empty() ? "" : " + ", group.devices, " ", place_in_words(group.device_type, group.zone));
  if (words.empty()) return h.ranks > 0 ? text(h.ranks, " ranks") : "not recorded";
  return text(words, ", ", h.hosts(), h.hosts() == 1 ? " node" : " nodes");
}

std::string end_in_words(const IncarnationHistory& h) {
  if (h.running) return "runs";
  if (!h.exit_code) return "killed without an exit status (SIGKILL, node failure, or the batch system)";
  return text(static_cast<int>(*h.exit_code), h.reason.empty() ? "" : ": " + h.reason);
}

std::string date(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm parts{};
  char out[32] = "";
  if (gmtime_r(&seconds, &parts) != nullptr) std::strftime(out, sizeof out, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return out;
}

std::string with_digits(const char* format, double value) {
  char out[48];
  std::snprintf(out, sizeof out, format, value);
  return out;
}

std::string cost_in_words(const RunCost& cost) {
  std::string words = with_digits("%.3g", cost.node_hours) + " node-hours, " + with_digits("%.3g", cost.device_hours) + " device-hours";
  if (cost.billing_units) words += ", " + billing(*cost.billing_units);
  if (cost.usd) words += ", " + dollars(*cost.usd);
  return words;
}

std::string lost_in_words(std::int64_t steps, double seconds) {
  return steps == 0 ? "nothing" : text(steps, steps == 1 ? " iteration" : " iterations", " repeated, ", Seconds{seconds});
}

std::string losses_in_words(const IncarnationHistory& h) {
  if (!h.first_loss) return "";
  return text("; loss ", with_digits("%.4f", *h.first_loss), " to ", with_digits("%.4f", *h.last_loss));
}

std::string change_in_words(const journal::PlanRecord& change) {
  const std::string why = change.reason.empty() ? "" : text(" (", change.reason, ")");
  if (!change.refused.empty()) return text("after iteration ", change.step, ": kept, ", change.refused, why);
  return text("after iteration ", change.step, ": ", change.plan, why, "; ", Bytes{change.moved_bytes}, " moved in ",
              Seconds{change.pause_seconds});
}

std::string incarnation_text(const IncarnationHistory& h, const RunCost& cost, int width) {
  std::vector<std::pair<std::string, std::string>> lines{{"devices", mix_in_words(h)}};
  if (!h.plan.empty()) lines.emplace_back("plan", h.origin.empty() ? h.plan : text(h.plan, " (", h.origin, ")"));
  for (const auto& change : h.plan_changes) lines.emplace_back("plan change", change_in_words(change));
  lines.emplace_back("ended", end_in_words(h));
  lines.emplace_back("iterations", h.steps() == 0 ? "none" : text(h.first_step + 1, " to ", h.last_step, losses_in_words(h)));
  if (const auto first = h.seconds_to_first_step()) lines.emplace_back("first step", text(Seconds{*first}, " after its launch"));
  lines.emplace_back("lost", lost_in_words(h.lost_steps, h.lost_seconds));
  if (h.checkpoints > 0) lines.emplace_back("checkpoints", text(h.checkpoints, " in ", Seconds{h.checkpoint_seconds}));
  if (cost.device_hours > 0) lines.emplace_back("cost", cost_in_words(cost));
  for (auto& [key, value] : lines) {
    key = "  " + key;
    value = options::wrap(value, 0, width - 15);
  }
  return text("incarnation ", h.number, h.job.empty() ? "" : ", job " + h.job, ", ", date(h.launched), ", ", Seconds{h.seconds()}, " on ",
              h.host, "\n", key_values(lines));
}

/// Sums; a price that one lacks the sum lacks, too. Incarnations that never had devices cost nothing that is known.
RunCost sum_of(const std::vector<RunCost>& costs) {
  RunCost sum;
  sum.billing_units = sum.usd = 0;
  for (const auto& cost : costs) {
    if (cost.device_hours <= 0) continue;
    sum.device_hours += cost.device_hours;
    sum.node_hours += cost.node_hours;
    for (auto [to, from] : {std::pair{&sum.billing_units, &cost.billing_units}, std::pair{&sum.usd, &cost.usd}}) {
      if (!*from) to->reset();
      if (*to) **to += **from;
    }
  }
  if (sum.device_hours <= 0) sum.billing_units = sum.usd = std::nullopt;
  return sum;
}

struct Totals {
  std::int64_t steps = 0, lost = 0;
  double lost_seconds = 0, seconds = 0;
};

Totals totals_of(const RunReport& report) {
  Totals t;
  for (const auto& h : report.incarnations) {
    t.steps = h.last_step;
    t.lost += h.lost_steps;
    t.lost_seconds += h.lost_seconds;
    t.seconds += h.seconds();
  }
  return t;
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

std::string incarnation_json(const IncarnationHistory& h, const RunCost& cost) {
  files::JsonLine line;
  line.add("incarnation", h.number).add("job", h.job).add("host", h.host).add("launched", h.launched).add("ended", h.ended);
  line.add("running", h.running).add_json("devices", groups_json(h)).add("ranks", h.ranks).add("plan", h.plan).add("plan_origin", h.origin);
  line.add_json("plan_changes", changes_json(h));
  add_or_null(line, "exit_code", h.exit_code ? std::optional{static_cast<int>(*h.exit_code)} : std::nullopt);
  line.add("reason", h.reason).add("first_step", h.first_step).add("last_step", h.last_step);
  line.add("lost_steps", h.lost_steps).add("lost_seconds", h.lost_seconds);
  add_or_null(line, "seconds_to_first_step", h.seconds_to_first_step());
  add_or_null(line, "first_loss", h.first_loss);
  add_or_null(line, "last_loss", h.last_loss);
  line.add("checkpoints", h.checkpoints).add("checkpoint_seconds", h.checkpoint_seconds);
  add_cost(line, cost);
  return line.text();
}

}  // namespace

std::string run_report_text(const RunReport& report, const Style&, int width) {
  const auto totals = totals_of(report);
  const auto starts = report.incarnations.size();
  std::vector<std::pair<std::string, std::string>> lines{
      {"run", text(report.run, ": ", totals.steps, " iterations, ", starts, starts == 1 ? " incarnation" : " incarnations", ", ",
                   Seconds{totals.seconds})},
      {"lost", lost_in_words(totals.lost, totals.lost_seconds)}};
  if (const auto cost = sum_of(report.costs); cost.device_hours > 0) lines.emplace_back("cost", cost_in_words(cost));
  std::string out = key_values_within(lines, table_width);
  for (std::size_t i = 0; i < starts; ++i) out += "\n" + incarnation_text(report.incarnations[i], report.costs[i], width);
  return out;
}

std::string run_report_json(const RunReport& report) {
  const auto totals = totals_of(report);
  std::string list;
  for (std::size_t i = 0; i < report.incarnations.size(); ++i)
    list += (list.empty() ? "" : ", ") + incarnation_json(report.incarnations[i], report.costs[i]);
  files::JsonLine line;
  line.add("format", "flotilla-report").add("version", 1).add("run", report.run).add("steps", totals.steps);
  line.add("lost_steps", totals.lost).add("lost_seconds", totals.lost_seconds).add("seconds", totals.seconds);
  add_cost(line, sum_of(report.costs));
  line.add_json("incarnations", "[" + list + "]");
  return line.text() + "\n";
}

}  // namespace flotilla::app
