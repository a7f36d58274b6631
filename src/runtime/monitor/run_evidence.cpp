#include "run_evidence.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "flotilla/model/operations.hpp"
#include "traffic_forecast.hpp"

namespace flotilla::monitor {
namespace {

using cluster::Correction;
using FigureKind = Correction::Figure;
using program::CollectiveKind;

cluster::LinkLevel level_between(const cluster::Device& a, const cluster::Device& b) {
  if (a.host == b.host) return cluster::LinkLevel::node;
  return a.zone == b.zone ? cluster::LinkLevel::zone : cluster::LinkLevel::wide;
}

/// What the profile calls the operation: a half by itself where it was measured, else what it is a half of.
std::string row_of(model::Operation operation, const std::string& type, const cluster::Profile& profile) {
  const std::string name{model::to_string(operation)};
  const auto whole = model::whole_of(operation);
  const auto measured = [&](const cluster::OperationTime& t) { return t.device_type == type && t.operation == name; };
  if (!whole || std::ranges::any_of(profile.operation_times, measured)) return name;
  return std::string{model::to_string(*whole)};
}

/// Rows that are not in a profile: their time follows from others.
bool is_derived(model::Operation operation) { return !model::whole_of(operation) && static_cast<int>(operation) >= model::operation_count; }

double stated_scatter(const Correction& c, const cluster::Profile& profile) {
  double scatter = 0;
  for (const auto& time : profile.operation_times)
    if (time.device_type == c.device_type && time.operation == c.operation && time.precision == c.precision &&
        time.tensor_parallel == c.tensor_parallel && time.sequences == c.sequences && time.length == c.length)
      scatter = std::max(scatter, time.relative_scatter);
  return std::isfinite(scatter) ? scatter : 0;
}

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Whether what these exchange goes from GPU to GPU by another transport than the hosts' links.
bool between_gpus(const cluster::Profile& profile, const std::string& type) {
  const auto* known = cluster::find_type(profile, type);
  return known != nullptr && known->kind == cluster::DeviceKind::gpu && !profile.device_links.empty();
}

}  // namespace

RankFigures::RankFigures(const program::Program& program, Rank me, const cluster::Profile& profile, const std::vector<Rank>& active_ranks)
    : program_{program},
      class_{program.classes.at(static_cast<std::size_t>(program.ranks.at(me.index()).rank_class))},
      me_{me},
      type_{profile.devices.at(active_ranks.at(me.index()).index()).type},
      of_instruction_(class_.instructions.size(), {-1, -1}) {
  const auto device = [&](Rank member) -> const cluster::Device& { return profile.devices.at(active_ranks.at(member.index()).index()); };
  const auto& binding = program.ranks.at(me.index());
  const bool judges_traffic = !between_gpus(profile, type_);
  for (std::size_t i = 0; i < class_.instructions.size(); ++i) {
    const auto& instruction = class_.instructions[i];
    for (const bool last : {false, true}) {
      if (last && !instruction.per_microbatch) continue;
      const int sequences = last ? class_.last_sequences : class_.shape.sequences;
      Evidence evidence;
      if (const auto* work = instruction.as<program::LayerOperation>()) {
        if (class_.shape.sequence_parallel || is_derived(work->operation)) continue;
        evidence = operation(*work, sequences, profile);
      } else if (instruction.as<program::OptimizerUpdate>() != nullptr) {
        evidence.figure = {.device_type = type_, .operation = "adamw", .precision = program.plan.precision};
        evidence.figure.error_bar = stated_scatter(evidence.figure, profile);
      } else if (const auto* message = instruction.as<program::MessageEnd>(); message != nullptr && message->sends() && judges_traffic) {
        if (message->size.of(sequences) < least_proving_message) continue;
        const Rank peer = binding.peers.at(static_cast<std::size_t>(message->peer));
        evidence.figure = {.figure = FigureKind::messages, .level = level_between(device(me), device(peer))};
      } else if (const auto* sum = instruction.as<program::Collective>();
                 sum != nullptr && sum->kind != CollectiveKind::reduce_scalars && judges_traffic) {
        evidence.group = binding.groups.at(static_cast<std::size_t>(sum->group));
        evidence.figure.figure = FigureKind::sums;
        for (const Rank member : program.groups.at(static_cast<std::size_t>(evidence.group)).members)
          evidence.figure.level = std::max(evidence.figure.level, level_between(device(me), device(member)));
      } else {
        continue;
      }
      add(static_cast<int>(i), last, evidence);
    }
  }
}

Evidence RankFigures::operation(const program::LayerOperation& work, int sequences, const cluster::Profile& profile) const {
  Evidence evidence;
  evidence.figure = {.device_type = type_,
                     .operation = row_of(work.operation, type_, profile),
                     .tensor_parallel = class_.shape.tensor_parallel,
                     .sequences = sequences,
                     .length = class_.shape.length,
                     .precision = program_.plan.precision};
  evidence.figure.error_bar = stated_scatter(evidence.figure, profile);
  return evidence;
}

void RankFigures::add(int instruction, bool last, const Evidence& evidence) {
  const auto same = [&](const Evidence& e) { return e.group == evidence.group && cluster::same_figure(e.figure, evidence.figure); };
  const auto found = std::ranges::find_if(figures_, same);
  of_instruction_[static_cast<std::size_t>(instruction)][last ? 1 : 0] = static_cast<int>(found - figures_.begin());
  if (found == figures_.end()) figures_.push_back(evidence);
}

int RankFigures::figure_of(int instruction, int microbatch) const {
  const auto& both = of_instruction_[static_cast<std::size_t>(instruction)];
  const bool last = class_.instructions[static_cast<std::size_t>(instruction)].per_microbatch && microbatch == class_.microbatches - 1;
  return both[last ? 1 : 0];
}

std::vector<double> RankFigures::seconds(std::span<const TimedRun> runs) const {
  std::map<std::pair<int, int>, std::vector<double>> by_instruction;  // and figure: the last microbatch may be another
  for (const auto& run : runs)
    if (const int figure = figure_of(run.instruction, run.microbatch); figure >= 0)
      by_instruction[{run.instruction, figure}].push_back(run.seconds);
  std::vector<double> sums(figures_.size(), 0);
  for (auto& [key, all] : by_instruction) sums[static_cast<std::size_t>(key.second)] += median_of(all) * static_cast<double>(all.size());
  return sums;
}

std::vector<double> RankFigures::seconds(std::span<const train::InstructionSpan> spans) const {
  std::vector<TimedRun> runs;
  for (const auto& span : spans) runs.push_back({span.instruction, span.microbatch, (span.end - span.start).value});
  return seconds(runs);
}

std::vector<double> RankFigures::seconds(std::span<const simulate::Span> spans) const {
  std::map<std::string, int, std::less<>> by_name;
  for (std::size_t i = 0; i < class_.instructions.size(); ++i) {
    const auto& instruction = class_.instructions[i];
    if (instruction.queue == program::Queue::compute) by_name.try_emplace(instruction.name, static_cast<int>(i));
  }
  std::vector<TimedRun> runs;
  for (const auto& span : spans) {
    const auto found = span.queue == program::Queue::compute ? by_name.find(span.name) : by_name.end();
    if (found != by_name.end()) runs.push_back({found->second, span.microbatch, (span.end - span.start).value});
  }
  return seconds(runs);
}

std::vector<double> RankFigures::traffic(const cluster::Profile& profile, const std::vector<Rank>& active_ranks) const {
  const auto traffic = traffic_of_instructions(program_, me_, profile, active_ranks);
  std::vector<double> sums(figures_.size(), 0);
  for (const auto& issued : program::expand(program_, me_))
    if (const int figure = figure_of(issued.instruction, issued.microbatch); figure >= 0) {
      const bool last =
          class_.instructions[static_cast<std::size_t>(issued.instruction)].per_microbatch && issued.microbatch == class_.microbatches - 1;
      sums[static_cast<std::size_t>(figure)] += traffic[static_cast<std::size_t>(issued.instruction)].forecast[last ? 1 : 0].value;
    }
  return sums;
}

std::vector<double> RankFigures::runs() const {
  std::vector<double> runs(figures_.size(), 0);
  for (const auto& issued : program::expand(program_, me_))
    if (const int figure = figure_of(issued.instruction, issued.microbatch); figure >= 0) ++runs[static_cast<std::size_t>(figure)];
  return runs;
}

}  // namespace flotilla::monitor
