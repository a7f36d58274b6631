#include "app/simulate/forecast_timeline.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/trace.hpp"

namespace flotilla::app {
namespace {

constexpr int most_shown_alone = 64;

std::string stages_in_words(const simulate::ReportRow& row) {
  std::string words = row.stages.size() == 1 ? "stage" : "stages";
  for (int s : row.stages) words += text(" ", s);
  return words + ", " + row.device_type;
}

/// A forecast stands in front of the measured step of the same rank.
int forecast_process(Rank rank) { return 2 * rank.value; }
int measured_process(int rank) { return 2 * rank + 1; }

class ForecastTrace {
 public:
  ForecastTrace(const simulate::Forecast& forecast, const simulate::Report& report, files::TraceEvents& out)
      : forecast_{forecast}, report_{report}, out_{out} {}

  void write() {
    for (std::size_t k = 0; k < forecast_.kinds.size(); ++k) {
      const auto& ranks = forecast_.kinds[k].ranks;
      const std::string place = stages_in_words(report_.rows.at(k));
      if (report_.devices > most_shown_alone) {
        add(ranks.front(), ranks.front(),
            ranks.size() > 1 ? text("forecast: rank ", ranks.front(), " and ", ranks.size() - 1, " like it, ", place)
                             : text("forecast: rank ", ranks.front(), ", ", place));
        continue;
      }
      for (Rank rank : ranks) add(rank, ranks.front(), text("forecast: rank ", rank, ", ", place));
    }
  }

 private:
  void add(Rank rank, Rank representative, const std::string& name) {
    const int process = forecast_process(rank);
    out_.add_process(process, name, process);
    for (const auto& span : forecast_.timeline)
      if (span.rank == representative) out_.add_span(process, span);
  }

  const simulate::Forecast& forecast_;
  const simulate::Report& report_;
  files::TraceEvents& out_;
};

}  // namespace

std::string forecast_trace(const simulate::Forecast& forecast, const simulate::Report& report, const MeasuredRun* measured) {
  files::TraceEvents events;
  ForecastTrace{forecast, report, events}.write();
  if (measured != nullptr) {
    for (const auto& [rank, name] : measured->processes)
      events.add_process(measured_process(rank), text("measured: rank ", rank, ", ", name), measured_process(rank));
    for (const auto& span : measured->spans) events.add_span(measured_process(span.rank.value), span);
  }
  return files::trace_file(events.text());
}

}  // namespace flotilla::app
