#include "app/measured_timeline.hpp"

#include "flotilla/comm/agree.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::app {
namespace {

constexpr const char* queue_names[program::queue_count] = {"compute", "send", "receive", "reduce", "copy"};

std::string name_event(const char* what, int rank, int queue, const std::string& name) {
  files::JsonLine line;
  line.add("ph", "M").add("name", what).add("pid", rank).add("tid", queue);
  return line.add_json("args", files::JsonLine{}.add("name", name).text()).text();
}

/// This rank's events, one JSON object a line, each followed by a comma.
std::string events(const comm::World& crew, const train::Trainer& trainer) {
  const int rank = crew.rank().value;
  const auto& binding = trainer.program().ranks[crew.rank().index()];
  const auto& c = trainer.program().classes[static_cast<std::size_t>(binding.rank_class)];
  std::string all =
      name_event("process_name", rank, 0, text(crew.name(crew.rank()), ", stage ", c.stage, ", replica ", binding.replica)) + ",\n";
  for (int q = 0; q < program::queue_count; ++q) all += name_event("thread_name", rank, q, queue_names[q]) + ",\n";
  for (const auto& span : trainer.timeline()) {
    const auto& site = c.sites[static_cast<std::size_t>(span.site)];
    files::JsonLine line;
    line.add("ph", "X").add("name", site.name).add("pid", rank).add("tid", static_cast<int>(site.queue));
    line.add("ts", span.start.value * 1e6).add("dur", (span.end - span.start).value * 1e6);
    if (site.per_microbatch) line.add_json("args", files::JsonLine{}.add("microbatch", span.microbatch).text());
    all += line.text() + ",\n";
  }
  return all;
}

}  // namespace

void write_measured_timeline(const std::filesystem::path& file, const comm::World& crew, const train::Trainer& trainer, Seconds deadline) {
  const auto all = mpi::all_gather_strings(crew.control(), events(crew, trainer), deadline);
  comm::agree_on(
      crew, "writing the timeline",
      [&] {
        if (crew.rank() != Rank{0}) return;
        std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
        for (const auto& part : all) text += part;
        text.resize(text.size() - 2);  // the last comma
        files::write_text(file, text + "\n]}\n");
      },
      deadline);
}

}  // namespace flotilla::app
