#include "app/report/report_words.hpp"

#include <ctime>

#include "app/common/pool.hpp"
#include "app/common/report_text.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {

using journal::IncarnationHistory;

std::string mix_in_words(const IncarnationHistory& h) {
  std::string words;
  for (const auto& group : h.devices)
    words += text(words.empty() ? "" : " + ", group.devices, " ", place_in_words(group.device_type, group.zone));
  if (words.empty()) return h.ranks > 0 ? text(h.ranks, h.ranks == 1 ? " rank" : " ranks") : "not recorded";
  return text(words, ", ", h.hosts(), h.hosts() == 1 ? " node" : " nodes");
}

std::string end_in_words(ExitCode code, const std::string& reason) {
  return text(static_cast<int>(code), reason.empty() ? "" : ": " + reason);
}

std::string end_in_words(const IncarnationHistory& h) {
  if (h.running) return "runs";
  if (!h.exit_code) return "killed without an exit status (SIGKILL, node failure, or the batch system)";
  return end_in_words(*h.exit_code, h.reason);
}

std::string date(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm parts{};
  char out[32] = "";
  if (gmtime_r(&seconds, &parts) != nullptr) std::strftime(out, sizeof out, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return out;
}

std::string cost_in_words(const RunCost& cost) {
  std::string words = formatted("%.3g", cost.node_hours) + " node-hours, " + formatted("%.3g", cost.device_hours) + " device-hours";
  if (cost.billing_units) words += ", " + billing(*cost.billing_units);
  if (cost.usd) words += ", " + dollars(*cost.usd);
  return words;
}

std::string lost_in_words(std::int64_t steps, double seconds, std::int64_t unsaved) {
  const auto iterations = [](std::int64_t n) { return text(n, n == 1 ? " iteration" : " iterations"); };
  std::string words;
  if (steps > 0) words = text(iterations(steps), " repeated, ", Seconds{seconds});
  if (unsaved > 0) words += text(words.empty() ? "" : "; ", iterations(unsaved), " after the newest checkpoint");
  return words.empty() ? "nothing" : words;
}

std::string change_in_words(const journal::PlanRecord& change) {
  const std::string why = change.reason.empty() ? "" : text(" (", change.reason, ")");
  if (!change.refused.empty()) return text("after iteration ", change.step, ": kept, ", change.refused, why);
  return text("after iteration ", change.step, ": ", change.plan, why, "; ", Bytes{change.moved_bytes}, " moved in ",
              Seconds{change.pause_seconds});
}

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

RunSums sums_of(const RunReport& report) {
  RunSums t;
  for (const auto& h : report.incarnations) {
    if (h.ranks > 0 || h.last_step > 0) t.steps = h.last_step;  // it came to its steps
    t.unsaved += h.unsaved_steps;
    t.lost += h.lost_steps;
    t.lost_seconds += h.lost_seconds;
    t.seconds += h.seconds();
  }
  return t;
}

}  // namespace flotilla::app
