#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/simulate/forecast.hpp"

/// Chrome traces (chrome://tracing, ui.perfetto.dev): a process per device, times in microseconds. A queue has as many threads ("tracks")
/// as spans of it run at a time, since those of one track may not overlap; the first of them is numbered as the queue, the others follow in
/// steps of program::queue_count.
namespace flotilla::files {

constexpr int most_tracks_of_queue = 4096;

/// One end of a message: an arrow is drawn between the two of one id.
struct TraceFlow {
  std::string id;
  bool begins = false;
};

/// Events of some processes, one JSON object a line, each followed by a comma.
class TraceEvents {
 public:
  /// Names a process. `order`: where it stands among the others.
  void add_process(int id, const std::string& name, int order);
  /// The span's rank is not looked at. Its activity is the event's category. Its event is named after the instruction, and the microbatch
  /// where the process runs the instruction in several.
  void add_span(int process, const simulate::Span&, std::optional<TraceFlow> = {});
  std::string text() const;

 private:
  struct Event {
    simulate::Span span;
    std::optional<TraceFlow> flow;
  };
  struct Process {
    std::string name;
    int order = 0;
    std::vector<Event> events;
  };
  std::map<int, Process> processes_;
};

/// The whole file, from the texts of some TraceEvents one after the other.
std::string trace_file(std::string events);

}  // namespace flotilla::files
