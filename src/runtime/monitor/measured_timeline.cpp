#include "flotilla/monitor/measured_timeline.hpp"

#include "flotilla/comm/agree.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/files/trace.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/plan/stage_names.hpp"

namespace flotilla::monitor {
namespace {

/// Both ends of a message name it alike: its ranks, the stream between them and the microbatch.
std::optional<files::TraceFlow> flow_of(const program::Instruction& instruction, Rank me, const program::RankBinding& binding,
                                        int microbatch) {
  const auto* message = instruction.as<program::MessageEnd>();
  if (message == nullptr) return std::nullopt;
  const Rank peer = binding.peers.at(static_cast<std::size_t>(message->peer));
  const auto [from, to] = message->sends() ? std::pair{me, peer} : std::pair{peer, me};
  return files::TraceFlow{text(from, " to ", to, ", channel ", message->channel, ", microbatch ", microbatch), message->sends()};
}

std::string events(const comm::World& active, const train::Trainer& trainer) {
  const auto& binding = trainer.program().ranks[active.rank().index()];
  const auto& c = trainer.program().classes[static_cast<std::size_t>(binding.rank_class)];
  files::TraceEvents events;
  events.add_process(active.rank().value,
                     text(active.name(active.rank()), ", ", plan::stages_of_device_in_words(trainer.program().plan, c.stage), ", replica ",
                          binding.replica),
                     active.rank().value);
  const auto spans = measured_spans(trainer, active.rank());
  for (std::size_t s = 0; s < spans.size(); ++s) {
    const auto& instruction = c.instructions[static_cast<std::size_t>(trainer.timeline()[s].instruction)];
    events.add_span(active.rank().value, spans[s], flow_of(instruction, active.rank(), binding, spans[s].microbatch));
  }
  return events.text();
}

}  // namespace

std::vector<simulate::Span> measured_spans(const train::Trainer& trainer, Rank rank) {
  const auto& program = trainer.program();
  const auto& c = program.classes[static_cast<std::size_t>(program.ranks[rank.index()].rank_class)];
  const auto activities = simulate::activities_by_instruction(program, rank);
  std::vector<simulate::Span> spans;
  for (const auto& span : trainer.timeline()) {
    const auto& instruction = c.instructions[static_cast<std::size_t>(span.instruction)];
    spans.push_back({rank, instruction.queue, activities[static_cast<std::size_t>(span.instruction)], instruction.name, span.microbatch,
                     span.start, span.end});
  }
  return spans;
}

void write_measured_timeline(const std::filesystem::path& file, const comm::World& active, const train::Trainer& trainer,
                             Seconds deadline) {
  const auto all = mpi::all_gather_strings(active.control(), events(active, trainer), deadline);
  comm::agree_on(
      active, "writing the timeline",
      [&] {
        if (active.rank() != Rank{0}) return;
        std::string text;
        for (const auto& part : all) text += part;
        files::write_text(file, files::trace_file(std::move(text)));
      },
      deadline);
}

}  // namespace flotilla::monitor
