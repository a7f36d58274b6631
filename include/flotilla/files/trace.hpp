#pragma once
#include <string>

#include "flotilla/simulate/forecast.hpp"

/// Chrome traces (chrome://tracing, ui.perfetto.dev): a process per device, a thread per queue, times in microseconds.
namespace flotilla::files {

/// Events of some processes, one JSON object a line, each followed by a comma.
class TraceEvents {
 public:
  /// Names a process and its queues. `order`: where it stands among the others.
  void add_process(int id, const std::string& name, int order);
  /// The span's rank is not looked at. Its activity is the event's category.
  void add_span(int process, const simulate::Span&);
  const std::string& text() const { return text_; }

 private:
  void add_name(const char* what, int process, int queue, const std::string& name);
  std::string text_;
};

/// The whole file, from the texts of some TraceEvents one after the other.
std::string trace_file(std::string events);

}  // namespace flotilla::files
