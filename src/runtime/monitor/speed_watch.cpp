#include "flotilla/monitor/speed_watch.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/plan/stage_names.hpp"
#include "group_links.hpp"
#include "round_trips.hpp"
#include "window_policy.hpp"
#include "window_recorder.hpp"

namespace flotilla::monitor {
namespace {

constexpr int settling_steps = 2;  // memory is touched, connections are made

/// Seconds of each active ranks rank's compute queue in a forecast iteration; empty without a forecast.
std::vector<double> forecast_busy(const simulate::Forecast& forecast, const std::vector<Rank>& active_ranks) {
  std::vector<double> busy;
  if (forecast.timeline.empty()) return busy;
  for (const Rank rank : active_ranks) {
    double seconds = 0;
    for (const auto& kind : forecast.kinds)
      if (std::ranges::binary_search(kind.ranks, rank))
        for (const auto& span : forecast.timeline)
          if (span.rank == kind.ranks.front() && span.queue == program::Queue::compute) seconds += (span.end - span.start).value;
    busy.push_back(seconds);
  }
  return busy;
}

/// By group; without those of the whole active ranks, which ranks wait in for each other.
std::vector<std::vector<Rank>> members_of_groups(const program::Program& program) {
  std::vector<std::vector<Rank>> members;
  for (const auto& group : program.groups)
    members.push_back(group.kind == program::Group::Kind::world ? std::vector<Rank>{} : group.members);
  return members;
}

std::string name_of(const comm::World& active, const program::Group& group) {
  return text(to_string(group.kind), " group of ", active.names(group.members));
}

/// Seconds that round trips between each two of them take by the profile; 0 where it says nothing.
std::vector<double> forecast_trips(const std::vector<Rank>& ends, const cluster::Profile& profile, const std::vector<Rank>& active_ranks) {
  std::vector<double> seconds;
  for (const Rank a : ends)
    for (const Rank b : ends) {
      double& trip = seconds.emplace_back(0);
      try {
        if (a != b)
          trip = 2 * cluster::transfer_time(cluster::link_between(profile, active_ranks[a.index()], active_ranks[b.index()]),
                                            round_trip_message)
                         .value;
      } catch (const Error&) {  // a link that the profile does not know
      }
    }
  return seconds;
}

}  // namespace

SpeedWatch::SpeedWatch(ActiveRun run, const simulate::Forecast& forecast, journal::MetricsWriter* metrics)
    : at_{run},
      metrics_{metrics},
      recorder_{std::make_unique<WindowRecorder>(at_.trainer.program(), at_.profile, at_.active_ranks, at_.active.rank())},
      length_{window_length(0)},
      settling_{settling_steps} {
  if (metrics_) check_ = SelfCheck{forecast_busy(forecast, at_.active_ranks), members_of_groups(at_.trainer.program())};
}

SpeedWatch::~SpeedWatch() = default;

SpeedWatch::Window SpeedWatch::add(std::int64_t step, Seconds took, bool disturbed) {
  step_ = step;
  if (settling_-- > 0) return Window::open;
  settling_ = 0;
  recorder_->add(at_.trainer.timeline(), took);
  if (!closes()) return Window::open;
  auto mine = recorder_->take();
  if (look_) mine.look = look_->group;
  const auto all = mpi::all_gather(at_.active.control(), mine, at_.deadline);
  length_ = window_length(all.front().iteration);
  if (all.front().look >= 0) look_at_links(all.front().look);
  return metrics_ && !disturbed && judge(all) ? Window::tells : Window::closed;
}

bool SpeedWatch::closes() {
  const auto state = window_state(recorder_->steps(), length_);
  if (state != WindowState::unsure) return state == WindowState::over;
  const int over = overdue(recorder_->time()) ? 1 : 0;
  return mpi::all_gather(at_.active.control(), over, at_.deadline).front() != 0;
}

bool SpeedWatch::judge(std::span<const RankWindow> windows) {
  const auto news = check_.judge(windows);
  for (std::size_t r = 0; r < windows.size(); ++r)
    log::debug("self-check, step ", step_, ", rank ", r, ": iteration ", Seconds{windows[r].iteration}, ", at work ",
               Seconds{windows[r].busy}, ", sends ", Seconds{windows[r].link}, " forecast ", Seconds{windows[r].link_forecast});
  for (const auto& slowness : news) tell(slowness);
  if (!look_) look_ = group_to_look_at(news, [this](const std::vector<Rank>& members) { return hosts_of(members).size(); });
  return calls_for_planning(check_.slow_now(), news);
}

std::vector<Rank> SpeedWatch::hosts_of(const std::vector<Rank>& members) const {
  return ends_of_hosts(members, [&](Rank member) { return at_.active.host(member); });
}

std::string SpeedWatch::stages_of(Rank member) const {
  const auto& program = at_.trainer.program();
  return plan::stages_of_device_in_words(program.plan,
                                         program.classes[static_cast<std::size_t>(program.ranks[member.index()].rank_class)].stage);
}

std::string SpeedWatch::name_of(const Slowness& s) const {
  const auto& program = at_.trainer.program();
  if (s.peer.valid())
    return text("the link from ", at_.active.name(s.rank), " (", stages_of(s.rank), ") to ", at_.active.name(s.peer), " (",
                stages_of(s.peer), ")");
  if (s.group >= 0)
    return text("the network of the ", monitor::name_of(at_.active, program.groups[static_cast<std::size_t>(s.group)]), " (",
                stages_of(s.rank), ")");
  return text(at_.active.name(s.rank), " (", at_.profile.devices.at(at_.active_ranks[s.rank.index()].index()).type, ", ", stages_of(s.rank),
              ")");
}

void SpeedWatch::look_at_links(int group) {
  const auto ends = hosts_of(at_.trainer.program().groups[static_cast<std::size_t>(group)].members);
  const auto trips = round_trips(at_.active, ends, at_.deadline);
  if (look_) tell_links(*look_, trips);
  look_.reset();
}

void SpeedWatch::tell_links(const Slowness& group, const std::vector<double>& trips) {
  const auto ends = hosts_of(group.members);
  const auto forecast = forecast_trips(ends, at_.profile, at_.active_ranks);
  for (std::size_t i = 0; i < trips.size(); ++i)
    if (i / ends.size() < i % ends.size())
      log::debug("round trip between ", at_.active.name(ends[i / ends.size()]), " and ", at_.active.name(ends[i % ends.size()]), ": ",
                 Seconds{trips[i]}, ", forecast ", Seconds{forecast[i]});
  auto links = slow_links(ends, trips, forecast);
  for (const auto& link : links) {
    auto record = record_of(group);
    record.factor = link.factor;
    record.link = link.other.valid() ? text(at_.active.host(link.end), " and ", at_.active.host(link.other)) : at_.active.host(link.end);
    metrics_->write(record);
    log::warning("step ", step_, ": in ", name_of(group), " it is the link ", link.other.valid() ? "between " : "of ", record.link, ": ",
                 round_trip_message, " round trips take ", std::round(link.factor * 10) / 10, " times those of the group's best link");
  }
  if (links.empty())
    log::info("step ", step_, ": in ", name_of(group), " no link stands out: ", round_trip_message,
              " round trips take about the same multiple of the profile's times between all hosts");
  check_.found(group.group, std::move(links));
}

journal::SlowRecord SpeedWatch::record_of(const Slowness& s) const {
  const auto& program = at_.trainer.program();
  journal::SlowRecord record;
  record.step = step_;
  record.rank = s.rank.value;
  record.host = at_.active.host(s.rank);
  record.stage = program.classes[static_cast<std::size_t>(program.ranks[s.rank.index()].rank_class)].stage;
  record.peer = s.peer.value;
  record.over = s.over;
  record.factor = s.factor;
  record.cost_seconds = s.cost.value;
  if (s.group >= 0) record.group = monitor::name_of(at_.active, program.groups[static_cast<std::size_t>(s.group)]);
  return record;
}

void SpeedWatch::tell(const Slowness& s) {
  metrics_->write(record_of(s));
  const auto what = name_of(s);
  const auto factor = std::round(s.factor * 10) / 10;
  if (s.over)
    log::info("step ", step_, ": ", what, " is no longer slow");
  else if (s.is_device())
    log::warning("step ", step_, ": ", what, " is slow: its compute takes ", factor,
                 " times its forecast relative to the other ranks, costing up to ", s.cost,
                 " per iteration; is other work on it, or is it throttled?");
  else
    log::warning("step ", step_, ": ", what, " is slow: its ", s.peer.valid() ? "messages" : "collectives", " take ", factor,
                 " times the forecast, costing up to ", s.cost, " per iteration");
}

}  // namespace flotilla::monitor
