#include "window_recorder.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::monitor {
namespace {

const program::RankClass& class_of(const program::Program& program, Rank rank) {
  return program.classes[static_cast<std::size_t>(program.ranks[rank.index()].rank_class)];
}

/// Seconds in which at least one of them was under way: messages to one peer share the wire.
double covered(std::vector<std::pair<double, double>>& intervals) {
  std::ranges::sort(intervals);
  double sum = 0, until = 0;
  for (const auto& [start, end] : intervals) {
    sum += std::max(0.0, end - std::max(start, until));
    until = std::max(until, end);
  }
  return sum;
}

}  // namespace

WindowRecorder::WindowRecorder(const program::Program& program, const cluster::Profile& profile, const std::vector<Rank>& active_ranks,
                               Rank me)
    : class_{class_of(program, me)}, instructions_{traffic_of_instructions(program, me, profile, active_ranks)} {}

void WindowRecorder::add(std::span<const train::InstructionSpan> timeline, Seconds took) {
  for (const auto& span : timeline) {
    const auto& instruction = class_.instructions[static_cast<std::size_t>(span.instruction)];
    if (instruction.queue == program::Queue::compute) busy_ += (span.end - span.start).value;
    const auto& traffic = instructions_[static_cast<std::size_t>(span.instruction)];
    const bool last = instruction.per_microbatch && span.microbatch == class_.microbatches - 1;
    const double forecast = traffic.forecast[last ? 1 : 0].value;
    if (traffic.peer >= 0) {
      sends_[traffic.peer].emplace_back(span.start.value, span.end.value);
      peers_[traffic.peer].forecast += forecast;
    }
    if (traffic.group >= 0) {
      auto& group = groups_[traffic.group];
      group.measured += (span.end - span.start).value;
      group.forecast += forecast;
    }
  }
  add_sends();
  seconds_ += took.value;
  ++steps_;
}

void WindowRecorder::add_sends() {
  for (auto& [peer, intervals] : sends_) {
    peers_[peer].measured += covered(intervals);
    intervals.clear();
  }
}

RankWindow WindowRecorder::take() {
  RankWindow window;
  if (steps_ == 0) return window;
  const double steps = steps_;
  window.iteration = seconds_ / steps;
  // A stall in the middle of an instruction counts twice; it only makes the slow rank plainer.
  const Seconds stalled = stalls_.stalled();
  window.busy = (busy_ + (stalled - stalled_).value) / steps;
  stalled_ = stalled;
  report_link(window);
  report_groups(window);
  steps_ = 0;
  seconds_ = busy_ = 0;
  peers_.clear();
  groups_.clear();
  return window;
}

void WindowRecorder::report_link(RankWindow& window) const {
  const double steps = steps_;
  for (const auto& [peer, traffic] : peers_) {
    if (window.peer >= 0 && (traffic.measured - traffic.forecast) / steps <= window.link - window.link_forecast) continue;
    window.peer = peer;
    window.link = traffic.measured / steps;
    window.link_forecast = traffic.forecast / steps;
  }
}

void WindowRecorder::report_groups(RankWindow& window) const {
  const double steps = steps_;
  std::vector<GroupTime> all;
  for (const auto& [group, traffic] : groups_) all.push_back({group, traffic.measured / steps, traffic.forecast / steps});
  std::ranges::stable_sort(all, std::ranges::greater{}, &GroupTime::forecast);
  std::copy_n(all.begin(), std::min(all.size(), window.groups.size()), window.groups.begin());
}

}  // namespace flotilla::monitor
