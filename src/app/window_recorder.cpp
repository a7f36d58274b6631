#include "app/window_recorder.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::app {
namespace {

const program::RankClass& class_of(const program::Program& program, Rank rank) {
  return program.classes[static_cast<std::size_t>(program.ranks[rank.index()].rank_class)];
}

/// nullptr where the profile holds none.
const cluster::Link* link(const cluster::Profile& profile, Rank a, Rank b) {
  try {
    return &cluster::link_between(profile, a, b);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

WindowRecorder::WindowRecorder(const train::Trainer& trainer, const cluster::Profile& profile, const std::vector<Rank>& crew_ranks, Rank me)
    : me_{me}, profile_{profile}, stalls_{std::make_unique<StallClock>()} {
  const auto& program = trainer.program();
  const auto& sites = class_of(program, me).sites;
  sends_.resize(sites.size());
  for (std::size_t s = 0; s < sites.size(); ++s) {
    if (sites[s].op != program::Op::send) continue;
    const Rank peer = program.ranks[me.index()].peers[static_cast<std::size_t>(sites[s].peer)];
    sends_[s] = {peer.value, link(profile_, crew_ranks[me.index()], crew_ranks[peer.index()])};
  }
}

void WindowRecorder::add(const train::Trainer& trainer, Seconds took) {
  const auto& c = class_of(trainer.program(), me_);
  for (const auto& span : trainer.timeline()) {
    const auto& site = c.sites[static_cast<std::size_t>(span.site)];
    if (site.queue == program::Queue::compute) busy_ += (span.end - span.start).value;
    const auto& send = sends_[static_cast<std::size_t>(span.site)];
    if (send.peer < 0 || send.link == nullptr) continue;
    auto& traffic = traffic_[send.peer];
    traffic.measured += (span.end - span.start).value;
    traffic.forecast += cluster::transfer_time(*send.link, c.sequences(span.microbatch) * site.bytes_per_sequence).value;
  }
  seconds_ += took.value;
  ++steps_;
}

RankWindow WindowRecorder::take() {
  RankWindow window;
  if (steps_ == 0) return window;
  const double steps = steps_;
  window.iteration = seconds_ / steps;
  // A stall in the middle of an instruction counts twice; it only makes the slow rank plainer.
  const Seconds stalled = stalls_->stalled();
  window.busy = (busy_ + (stalled - stalled_).value) / steps;
  stalled_ = stalled;
  for (const auto& [peer, traffic] : traffic_) {
    if (window.peer >= 0 && (traffic.measured - traffic.forecast) / steps <= window.link - window.link_forecast) continue;
    window.peer = peer;
    window.link = traffic.measured / steps;
    window.link_forecast = traffic.forecast / steps;
  }
  steps_ = 0;
  seconds_ = busy_ = 0;
  traffic_.clear();
  return window;
}

}  // namespace flotilla::app
