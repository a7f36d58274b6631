#include "flotilla/files/trace.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "flotilla/base/text.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::files {
namespace {

constexpr const char* queue_names[program::queue_count] = {"compute", "send", "receive", "reduce", "copy", "sum", "receive back"};

std::string metadata(const char* what, int process, int track, const std::string& name) {
  JsonLine line;
  line.add("ph", "M").add("name", what).add("pid", process).add("tid", track);
  return line.add_json("args", JsonLine{}.add("name", name).text()).text() + ",\n";
}

std::string sort_index(int process, int order) {
  JsonLine line;
  line.add("ph", "M").add("name", "process_sort_index").add("pid", process).add("tid", 0);
  return line.add_json("args", JsonLine{}.add("sort_index", order).text()).text() + ",\n";
}

/// Deals spans, in the order of their starts, to the first track of their queue that is free.
class Tracks {
 public:
  int track_for(const simulate::Span& span) {
    auto& ends = ends_[static_cast<std::size_t>(span.queue)];
    auto free = std::ranges::find_if(ends, [&](Seconds end) { return end <= span.start; });
    if (free == ends.end() && ends.size() < most_tracks_of_queue) free = ends.insert(ends.end(), Seconds{});
    if (free == ends.end()) --free;
    *free = span.end;
    return static_cast<int>(span.queue) + program::queue_count * static_cast<int>(free - ends.begin());
  }

  std::string names_of(int process) const {
    std::string names;
    for (int q = 0; q < program::queue_count; ++q)
      for (std::size_t t = 0; t < ends_[static_cast<std::size_t>(q)].size(); ++t)
        names += metadata("thread_name", process, q + program::queue_count * static_cast<int>(t),
                          t == 0 ? queue_names[q] : text(queue_names[q], " ", t + 1));
    return names;
  }

 private:
  std::array<std::vector<Seconds>, program::queue_count> ends_;
};

std::string span_event(int process, int track, const simulate::Span& span, bool in_several_microbatches) {
  JsonLine line;
  const std::string name = in_several_microbatches ? text(span.name, " mb ", span.microbatch) : span.name;
  line.add("ph", "X").add("name", name).add("cat", simulate::to_string(span.activity)).add("pid", process);
  line.add("tid", track).add("ts", span.start.value * 1e6).add("dur", (span.end - span.start).value * 1e6);
  line.add_json("args", JsonLine{}.add("microbatch", span.microbatch).add("instruction", span.name).text());
  return line.text() + ",\n";
}

/// The arrow leaves a send where it starts and enters a receive where it ends: inside of both, else it would be of what stands beside.
std::string flow_event(int process, int track, const simulate::Span& span, const TraceFlow& flow) {
  constexpr double inside = 0.999;
  JsonLine line;
  line.add("ph", flow.begins ? "s" : "f").add("name", "message").add("cat", "message").add("id", flow.id).add("pid", process);
  line.add("tid", track).add("ts", (span.start + (span.end - span.start) * (flow.begins ? 0 : inside)).value * 1e6);
  if (!flow.begins) line.add("bp", "e");
  return line.text() + ",\n";
}

}  // namespace

void TraceEvents::add_process(int id, const std::string& name, int order) {
  auto& process = processes_[id];
  process.name = name;
  process.order = order;
}

void TraceEvents::add_span(int process, const simulate::Span& span, std::optional<TraceFlow> flow) {
  processes_[process].events.push_back({span, std::move(flow)});
}

std::string TraceEvents::text() const {
  std::string out;
  for (const auto& [id, process] : processes_) {
    out += metadata("process_name", id, 0, process.name) + sort_index(id, process.order);
    std::vector<const Event*> events;
    std::map<std::string, std::set<int>> microbatches;
    for (const auto& event : process.events) {
      events.push_back(&event);
      microbatches[event.span.name].insert(event.span.microbatch);
    }
    std::ranges::stable_sort(events, {}, [](const Event* event) { return event->span.start.value; });
    Tracks tracks;
    std::string spans;
    for (const Event* event : events) {
      const int track = tracks.track_for(event->span);
      spans += span_event(id, track, event->span, microbatches.at(event->span.name).size() > 1);
      if (event->flow) spans += flow_event(id, track, event->span, *event->flow);
    }
    out += tracks.names_of(id) + spans;
  }
  return out;
}

std::string trace_file(std::string events) {
  if (!events.empty()) events.resize(events.size() - 2);  // the last comma
  return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + events + "\n]}\n";
}

}  // namespace flotilla::files
