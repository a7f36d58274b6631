#include "app/common/table.hpp"
#include "app/validate/validation.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::app {

std::string in_percent(std::optional<double> share, bool sign) {
  if (!share) return "-";
  return formatted(sign ? "%+.1f" : "%.1f", 100 * *share);
}

namespace {

using published::Statistics;

std::string table_of(const std::string& title, const std::vector<Statistics>& groups, const Statistics* total) {
  using enum Align;
  TextTable table{{{title, left},
                   {"runs", right},
                   {"mean", right},
                   {"median", right},
                   {"worst", right},
                   {"bias", right},
                   {"in 90%", right},
                   {"mem- ory", right},
                   {"OOM", right},
                   {"regret", right}}};
  const auto add = [&](const Statistics& s) {
    const std::string oom =
        s.out_of_memory + s.out_of_memory_false == 0 ? "-" : text(s.out_of_memory_called, "/", s.out_of_memory, "+", s.out_of_memory_false);
    table.add({s.name, s.forecast_runs == s.runs ? text(s.runs) : text(s.forecast_runs, "/", s.runs), in_percent(s.time_error_mean),
               in_percent(s.time_error_median), in_percent(s.time_error_worst), in_percent(s.time_bias, true), in_percent(s.coverage),
               in_percent(s.memory_error_mean), oom, in_percent(s.regret)});
  };
  std::vector<std::string> without;
  for (const auto& group : groups)
    if (group.forecast_runs > 0)
      add(group);
    else
      without.push_back(text(group.name, " (", group.runs, ")"));
  if (total != nullptr) add(*total);
  const std::string rows = table.print(output_style());
  return without.empty() ? rows : rows + options::wrap("No run is forecast of " + joined(without) + ".", 0, table_width) + "\n";
}

std::string runs_table(const Validation& v) {
  using enum Align;
  TextTable table{{{"run", left},
                   {"runtime", left},
                   {"measured s", right},
                   {"forecast s", right},
                   {"error %", right},
                   {"90% bar", right},
                   {"memory error %", right}}};
  for (const auto& run : v.runs) {
    if (!run.is_forecast()) continue;
    table.add({run.run.id, run.runtime, run.run.measured.iteration ? text(run.run.measured.iteration->value) : "-",
               text(run.forecast.value), in_percent(run.time_error(), true), in_percent(run.relative_error),
               in_percent(run.memory_error(), true)});
  }
  return table.print(output_style());
}

}  // namespace

std::string validation_text(const Validation& v, bool each) {
  std::string out;
  if (each) out += runs_table(v) + "\n";
  out += table_of("source, %", v.sources, &v.all);
  out += "\n" + table_of("runtime, %", v.runtimes, nullptr);
  out += "\n" + table_of("device, %", v.devices, nullptr);
  if (v.not_forecast.empty()) return out;
  TextTable table{{{"runs", Align::right}, {"not forecast because of", Align::left}}};
  for (const auto& [reason, runs] : v.not_forecast) table.add({text(runs), reason});
  return out + "\n" + table.print(output_style());
}

}  // namespace flotilla::app
