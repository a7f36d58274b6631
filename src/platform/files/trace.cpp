#include "flotilla/files/trace.hpp"

#include "flotilla/files/json.hpp"

namespace flotilla::files {
namespace {

constexpr const char* queue_names[program::queue_count] = {"compute", "send", "receive", "reduce", "copy", "sum", "receive back"};

}  // namespace

void TraceEvents::add_name(const char* what, int process, int queue, const std::string& name) {
  JsonLine line;
  line.add("ph", "M").add("name", what).add("pid", process).add("tid", queue);
  text_ += line.add_json("args", JsonLine{}.add("name", name).text()).text() + ",\n";
}

void TraceEvents::add_process(int id, const std::string& name, int order) {
  add_name("process_name", id, 0, name);
  JsonLine line;
  line.add("ph", "M").add("name", "process_sort_index").add("pid", id).add("tid", 0);
  text_ += line.add_json("args", JsonLine{}.add("sort_index", order).text()).text() + ",\n";
  for (int q = 0; q < program::queue_count; ++q) add_name("thread_name", id, q, queue_names[q]);
}

void TraceEvents::add_span(int process, const simulate::Span& span) {
  JsonLine line;
  line.add("ph", "X").add("name", span.name).add("cat", simulate::to_string(span.activity)).add("pid", process);
  line.add("tid", static_cast<int>(span.queue)).add("ts", span.start.value * 1e6).add("dur", (span.end - span.start).value * 1e6);
  line.add_json("args", JsonLine{}.add("microbatch", span.microbatch).text());
  text_ += line.text() + ",\n";
}

std::string trace_file(std::string events) {
  if (!events.empty()) events.resize(events.size() - 2);  // the last comma
  return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + events + "\n]}\n";
}

}  // namespace flotilla::files
