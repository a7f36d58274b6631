#include "app/common/measured_run.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/trace.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "flotilla/monitor/forecast_comparison.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

simulate::Activity activity_named(const files::Json& place) {
  const std::string name = place.as_string();
  for (int a = 0; a < simulate::activity_count; ++a)
    if (name == simulate::to_string(static_cast<simulate::Activity>(a))) return static_cast<simulate::Activity>(a);
  place.refuse("expected an activity, such as forward; is the timeline one that flotilla train wrote?");
}

constexpr int most_ranks = 1 << 24;
constexpr double longest_us = 1e12;  // a step of eleven days

simulate::Span span_of(const files::Json& event) {
  simulate::Span span;
  span.rank = Rank{event.get_int("pid", 0, most_ranks)};
  span.queue =
      static_cast<program::Queue>(event.get_int("tid", 0, program::queue_count * files::most_tracks_of_queue - 1) % program::queue_count);
  span.activity = activity_named(event.at("cat"));
  const auto& instruction = event.at("args");
  span.name = instruction.get_string("instruction");
  span.microbatch = instruction.get_int("microbatch", 0);
  const double start = event.at("ts").as_double(-longest_us, longest_us) * 1e-6;
  span.start = {start};
  span.end = {start + event.at("dur").as_double(0, longest_us) * 1e-6};
  return span;
}

void read_timeline(const fs::path& file, MeasuredRun& run) {
  for (const auto& event : files::Json::read(file).at("traceEvents").items()) {
    const std::string kind = event.get_string("ph");
    if (kind == "X") run.spans.push_back(span_of(event));
    if (kind == "M" && event.get_string("name") == "process_name")
      run.processes.emplace_back(event.get_int("pid", 0, most_ranks), event.at("args").get_string("name"));
  }
  FLOTILLA_REQUIRE(!run.spans.empty(), ErrorKind::bad_input, file.string(), ": no step is in it; expected what --report.timeline writes");
}

}  // namespace

MeasuredRun read_measured_run(const fs::path& path) {
  MeasuredRun run;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    read_timeline(path, run);
    return run;
  }
  std::vector<double> seconds;
  for (const auto& step : journal::effective_steps(journal::read_metrics(path))) seconds.push_back(step.step_seconds);
  std::erase_if(seconds, [](double s) { return !(s > 0) || !std::isfinite(s); });
  FLOTILLA_REQUIRE(!seconds.empty(), ErrorKind::bad_input, path.string(), ": no step was measured; metrics.jsonl has none");
  const auto counted = monitor::settled(seconds);
  run.iteration = monitor::median(counted);
  run.iterations = counted.size();
  if (const auto file = path / "timeline.json"; fs::exists(file, ignored)) read_timeline(file, run);
  return run;
}

}  // namespace flotilla::app
