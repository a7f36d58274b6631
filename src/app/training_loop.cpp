#include "app/training_loop.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "app/group_links.hpp"
#include "app/measured_timeline.hpp"
#include "app/report_text.hpp"
#include "app/round_trips.hpp"
#include "app/stage_table.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "flotilla/mpi/communicator.hpp"

#ifndef FLOTILLA_VERSION
#error "the build defines FLOTILLA_VERSION"
#endif

namespace flotilla::app {
namespace {

constexpr std::size_t recent_steps = 32;
constexpr int settling_steps = 2;   // memory is touched, connections are made
constexpr int windows_to_last = 3;  // slow for so many windows in a row: planning again may be worth it

/// Seconds of each crew rank's compute queue in a forecast iteration; empty without a forecast.
std::vector<double> forecast_busy(const simulate::Forecast& forecast, const std::vector<Rank>& crew_ranks) {
  std::vector<double> busy;
  if (forecast.timeline.empty()) return busy;
  for (const Rank rank : crew_ranks) {
    double seconds = 0;
    for (const auto& kind : forecast.kinds)
      if (std::ranges::binary_search(kind.ranks, rank))
        for (const auto& span : forecast.timeline)
          if (span.rank == kind.ranks.front() && span.queue == program::Queue::compute) seconds += (span.end - span.start).value;
    busy.push_back(seconds);
  }
  return busy;
}

/// By group; without those of the whole crew, which ranks wait in for each other.
std::vector<std::vector<Rank>> members_of_groups(const program::Program& program) {
  std::vector<std::vector<Rank>> members;
  for (const auto& group : program.groups)
    members.push_back(group.kind == program::Group::Kind::world ? std::vector<Rank>{} : group.members);
  return members;
}

std::string name_of(const comm::World& crew, const program::Group& group) {
  return text(to_string(group.kind), " group of ", crew.names(group.members));
}

/// Of ranks of the crew, one on each of their hosts.
std::vector<Rank> hosts_of(const comm::World& crew, const std::vector<Rank>& members) {
  return ends_of_hosts(members, [&](Rank member) { return crew.host(member); });
}

/// Seconds that round trips between each two of them take by the profile; 0 where it says nothing.
std::vector<double> forecast_trips(const std::vector<Rank>& ends, const cluster::Profile& profile, const std::vector<Rank>& crew_ranks) {
  std::vector<double> seconds;
  for (const Rank a : ends)
    for (const Rank b : ends) {
      double& trip = seconds.emplace_back(0);
      try {
        if (a != b)
          trip =
              2 * cluster::transfer_time(cluster::link_between(profile, crew_ranks[a.index()], crew_ranks[b.index()]), round_trip_message)
                      .value;
      } catch (const Error&) {  // a link that the profile does not know
      }
    }
  return seconds;
}

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

TrainingLoop::TrainingLoop(LoopInput input)
    : in_{std::move(input)},
      done_{in_.first_step},
      saved_{in_.change ? -1 : in_.first_step},
      last_save_{now()},
      guard_{in_.allocation, in_.crew.rank() == Rank{0}, in_.job.run.grace, in_.ends},
      window_{window_length(0)} {
  in_.trainer.give_up_when([this](std::int64_t step) { return guard_.given_up(step); });
  const auto& plan = in_.trainer.program().plan;
  flops_per_step_ = model::training_flops_per_token(plan.model, plan.length) * plan.length * plan.global_batch;
  if (in_.crew.rank() == Rank{0}) {
    begin_metrics();
    check_ = ForecastCheck{in_.forecast, in_.crew_ranks.front()};
    self_check_ = SelfCheck{forecast_busy(in_.forecast, in_.crew_ranks), members_of_groups(in_.trainer.program())};
    time_left_ = {in_.ends, in_.job.run.stop_slack, {}, in_.longest_save ? *in_.longest_save : longest_save_so_far()};
  }
  recorder_ = WindowRecorder{in_.trainer, in_.profile, in_.crew_ranks, in_.crew.rank()};
  recent_.reserve(recent_steps);
}

void TrainingLoop::note_devices(std::vector<journal::DeviceGroup> devices, const std::string& origin) {
  if (!speaks()) return;
  journal::DevicesRecord record;
  record.step = done_;
  record.launched = journal::this_process_began();
  record.origin = origin;
  record.devices = std::move(devices);
  metrics_->write(record);
}

void TrainingLoop::begin_metrics() {
  metrics_.emplace(in_.allocation.run(), in_.allocation.incarnation());
  if (const auto& file = in_.job.report.prometheus; !file.empty())
    prometheus_.emplace(file, in_.allocation.run().string(), in_.allocation.job());
  if (in_.change) return tell(*in_.change);
  journal::StartRecord start;
  start.step = done_;
  start.ranks = in_.crew.size();
  start.plan = in_.plan_summary;
  start.host = in_.crew.host(Rank{0});
  start.version = FLOTILLA_VERSION;
  metrics_->write(start);
}

void TrainingLoop::tell(const PlanChange& change) {
  journal::PlanRecord record;
  record.step = change.step;
  record.plan = in_.plan_summary;
  record.reason = change.reason;
  record.refused = change.refused;
  record.moved_bytes = change.moved.count;
  record.pause_seconds = (now() - change.since).value;
  metrics_->write(record);
  if (!change.refused.empty()) return log::warning("the plan stays as it is (", change.reason, "): ", change.refused);
  say(text("plan changed after step ", change.step, " (", change.reason, "): ", change.moved, " moved, pause ",
           Seconds{record.pause_seconds}, "\nplan      ", in_.plan_summary));
}

Ending TrainingLoop::run() {
  auto ending = run_steps();
  search_.end();
  return ending;
}

Ending TrainingLoop::run_steps() {
  const auto& job = in_.job;
  in_.allocation.set_step(done_);
  while (done_ < job.training.steps) {
    const Seconds begin = now();
    const auto result = one_step();
    if (result.given_up) return leave_step();
    require_finite(result);
    ++done_;
    in_.allocation.set_step(done_);
    const Seconds took = now() - begin;
    report(result, took);
    check_forecast(took);
    check_speed(took);
    evaluate_if_due();
    const bool last = done_ == job.training.steps;
    if (last) in_.ahead->abandon();
    if (result.stop && !last) {
      in_.ahead->abandon();
      save();
      return ended(ExitCode::requeue, text(why_stopped(), ": saved at step ", done_));
    }
    if (last || save_due(result)) save();
    if (result.change && !last)
      if (auto ending = advance_change()) return *ending;
  }
  return ended(ExitCode::done, "finished");
}

std::optional<Ending> TrainingLoop::advance_change() {
  if (!preparing_) {
    preparing_ = true;
    in_.make_ready(next_);
    return std::nullopt;
  }
  const Seconds since = now();
  const auto* ready = in_.ahead->wait();
  if (ready->refused.empty())
    return Ending{ExitCode::done, "another plan goes on", done_, ready->next, since, in_.trainer.optimizer_steps()};
  preparing_ = false;
  if (speaks()) tell(PlanChange{done_, ready->next.reason, since, {}, ready->refused, {}});
  next_.reset();
  in_.ahead->drop();
  return std::nullopt;
}

Ending TrainingLoop::leave_step() {
  notes_stop();
  in_.ahead->abandon();
  save();
  const auto kept = done_ > 0 ? text("; saved at step ", done_) : ", and none is done yet";
  return ended(ExitCode::requeue, text(why_stopped(), ": no time for step ", done_ + 1, " and a save", kept));
}

bool TrainingLoop::notes_stop() {
  const auto stop = in_.allocation.stop_wanted();
  if (stop && stop_reason_.empty()) stop_reason_ = *stop;
  return stop.has_value();
}

train::Wishes TrainingLoop::wishes() {
  train::Wishes wishes;
  wishes.stop = notes_stop();
  if (speaks() && time_left_.last_step(now())) {
    if (stop_reason_.empty()) stop_reason_ = "the job's time is nearly over";
    wishes.stop = true;
  }
  const auto& every = in_.job.checkpoint.every_time;
  if (speaks()) look_for_next_plan();
  wishes.change = next_ && (!preparing_ || in_.ahead->over());
  wishes.save = every.value > 0 && in_.crew.rank() == Rank{0} && now() - last_save_ >= every;
  return wishes;
}

void TrainingLoop::look_for_next_plan() {
  disturbed_ = disturbed_ || preparing_ || search_.answer.valid();
  if (next_) return;
  if (in_.next_plan) next_ = in_.next_plan();
  if (next_ && !next_->refused.empty()) {
    tell(PlanChange{done_, next_->reason, now(), {}, next_->refused, {}});
    next_.reset();
  }
  if (next_ || !search_.answer.valid()) return;
  if (search_.answer.wait_for(std::chrono::seconds{0}) == std::future_status::ready) next_ = search_.answer.get();
}

std::string TrainingLoop::why_stopped() const {
  // A signal reaches one rank, and the one that keeps the books is seldom it.
  for (auto& reason : mpi::all_gather_strings(in_.crew.control(), stop_reason_, in_.job.comm.deadline))
    if (!reason.empty()) return reason;
  return "a stop was asked for";
}

train::StepResult TrainingLoop::one_step() {
  const auto wanted = wishes();
  guard_.begin(done_, time_left_, wanted.stop);
  const auto result = in_.trainer.step(done_, wanted);
  guard_.end();
  return result;
}

void TrainingLoop::require_finite(const train::StepResult& result) const {
  if (result.finite) return;
  const std::string where = result.not_finite_ranks == 1  ? "first on " + in_.crew.name(result.not_finite_rank)
                            : result.not_finite_ranks > 1 ? text("on ", result.not_finite_ranks, " ranks")
                                                          : "in the sum over the ranks";
  const std::string line =
      text("step ", done_ + 1, ": loss ", result.loss, ", gradient norm ", result.gradient_norm, ": not finite, ", where);
  if (in_.job.training.skip_non_finite) {
    if (speaks()) log::warning(line, "; the update is left out");
    return;
  }
  // Every rank comes here with the same totals, so agreement is immediate and the parameters are those of the step before.
  throw comm::AgreedError{ErrorKind::bad_input,
                          line + "; the last checkpoint is good: lower --training.learning-rate or set --training.skip-non-finite"};
}

void TrainingLoop::report(const train::StepResult& result, Seconds took) {
  if (!speaks()) return;
  if (recent_.size() < recent_steps)
    recent_.push_back(took.value);
  else
    recent_[static_cast<std::size_t>(done_) % recent_steps] = took.value;
  time_left_.step = {*std::max_element(recent_.begin(), recent_.end())};
  const auto& plan = in_.trainer.program().plan;
  journal::StepRecord record;
  record.step = done_;
  record.loss = result.loss;
  record.tokens_per_second = static_cast<double>(plan.global_batch) * plan.length / took.value;
  record.step_seconds = took.value;
  record.share_of_peak = in_.peak_flops > 0 ? flops_per_step_ / (took.value * in_.peak_flops) : 0;
  record.learning_rate = result.learning_rate;
  record.gradient_norm = result.gradient_norm;
  record.eta_seconds = journal::remaining_time(recent_, in_.job.training.steps - done_).value;
  record.incarnation = in_.allocation.incarnation();
  metrics_->write(record);
  if (prometheus_) prometheus_->update(record, done_ == in_.job.training.steps || result.stop);
  // mpirun gives ranks a terminal of its own whatever its output is, so the terminal says nothing: log-every decides alone.
  if (journal::gets_line(done_, in_.first_step + 1, in_.job.training.steps, in_.job.run.log_every, false))
    say(journal::step_line(record, in_.job.training.steps));
}

void TrainingLoop::check_forecast(Seconds took) {
  if (!check_.open()) return;
  if (const auto comparison = check_.add(took, measured_spans(in_.trainer, in_.crew.rank()))) tell(*comparison);
}

void TrainingLoop::check_speed(Seconds took) {
  if (done_ - in_.first_step <= settling_steps) return;
  recorder_.add(in_.trainer, took);
  if (recorder_.steps() < window_) return;
  auto mine = recorder_.take();
  if (look_) mine.look = look_->group;
  const auto all = mpi::all_gather(in_.crew.control(), mine, in_.job.comm.deadline);
  window_ = window_length(all.front().iteration);
  if (all.front().look >= 0) look_at_links(all.front().look);
  if (speaks() && !disturbed_) judge(all);
  disturbed_ = false;
}

void TrainingLoop::judge(std::span<const RankWindow> windows) {
  const auto news = self_check_.judge(windows);
  for (std::size_t r = 0; r < windows.size(); ++r)
    log::debug("self-check, step ", done_, ", rank ", r, ": iteration ", Seconds{windows[r].iteration}, ", at work ",
               Seconds{windows[r].busy}, ", sends ", Seconds{windows[r].link}, " forecast ", Seconds{windows[r].link_forecast});
  for (const auto& slowness : news) {
    tell(slowness);
    if (slowness.group >= 0 && !slowness.over && !look_ && hosts_of(in_.crew, slowness.members).size() > 2) look_ = slowness;
  }
  if (!in_.plan_again || next_ || search_.answer.valid()) return;
  auto slow = self_check_.slow_now();
  const bool lasts = std::ranges::any_of(slow, [](const auto& s) { return s.windows == windows_to_last; });
  const bool over = std::ranges::any_of(news, [](const auto& s) { return s.over; });
  if (!lasts && !over) return;
  search_.stop = {};
  search_.answer =
      std::async(std::launch::async, in_.plan_again, std::move(slow), in_.job.training.steps - done_, search_.stop.get_token());
}

std::string TrainingLoop::name_of(const Slowness& s) const {
  const auto& program = in_.trainer.program();
  const auto stages = [&](Rank member) {
    return stages_of_device_in_words(program.plan,
                                     program.classes[static_cast<std::size_t>(program.ranks[member.index()].rank_class)].stage);
  };
  if (s.peer.valid())
    return text("the link from ", in_.crew.name(s.rank), " (", stages(s.rank), ") to ", in_.crew.name(s.peer), " (", stages(s.peer), ")");
  if (s.group >= 0)
    return text("the network of the ", app::name_of(in_.crew, program.groups[static_cast<std::size_t>(s.group)]), " (", stages(s.rank),
                ")");
  return text(in_.crew.name(s.rank), " (", in_.profile.devices.at(in_.crew_ranks[s.rank.index()].index()).type, ", ", stages(s.rank), ")");
}

void TrainingLoop::look_at_links(int group) {
  const auto ends = hosts_of(in_.crew, in_.trainer.program().groups[static_cast<std::size_t>(group)].members);
  const auto trips = round_trips(in_.crew, ends, in_.job.comm.deadline);
  if (look_) tell_links(*look_, trips);
  look_.reset();
}

void TrainingLoop::tell_links(const Slowness& group, const std::vector<double>& trips) {
  const auto ends = hosts_of(in_.crew, group.members);
  const auto forecast = forecast_trips(ends, in_.profile, in_.crew_ranks);
  for (std::size_t i = 0; i < trips.size(); ++i)
    if (i / ends.size() < i % ends.size())
      log::debug("round trip between ", in_.crew.name(ends[i / ends.size()]), " and ", in_.crew.name(ends[i % ends.size()]), ": ",
                 Seconds{trips[i]}, ", forecast ", Seconds{forecast[i]});
  auto links = slow_links(ends, trips, forecast);
  for (const auto& link : links) {
    auto record = record_of(group);
    record.factor = link.factor;
    record.link = link.other.valid() ? text(in_.crew.host(link.end), " and ", in_.crew.host(link.other)) : in_.crew.host(link.end);
    metrics_->write(record);
    log::warning("step ", done_, ": in ", name_of(group), " it is the link ", link.other.valid() ? "between " : "of ", record.link, ": ",
                 round_trip_message, " there and back take ", std::round(link.factor * 10) / 10, " times what they take on its best link");
  }
  if (links.empty())
    log::info("step ", done_, ": in ", name_of(group), " no link stands out: ", round_trip_message,
              " there and back take much the same between all hosts, beside the profile's figures");
  self_check_.found(group.group, std::move(links));
}

journal::SlowRecord TrainingLoop::record_of(const Slowness& s) const {
  const auto& program = in_.trainer.program();
  journal::SlowRecord record;
  record.step = done_;
  record.rank = s.rank.value;
  record.host = in_.crew.host(s.rank);
  record.stage = program.classes[static_cast<std::size_t>(program.ranks[s.rank.index()].rank_class)].stage;
  record.peer = s.peer.value;
  record.over = s.over;
  record.factor = s.factor;
  record.cost_seconds = s.cost.value;
  if (s.group >= 0) record.group = app::name_of(in_.crew, program.groups[static_cast<std::size_t>(s.group)]);
  return record;
}

void TrainingLoop::tell(const Slowness& s) {
  metrics_->write(record_of(s));
  const auto what = name_of(s);
  const auto factor = std::round(s.factor * 10) / 10;
  if (s.over)
    log::info("step ", done_, ": ", what, " is no longer slow");
  else if (s.is_device())
    log::warning("step ", done_, ": ", what, " is slow: its work takes ", factor, " times what it should beside the other ranks', up to ",
                 s.cost, " of an iteration; is other work on it, or is it throttled?");
  else
    log::warning("step ", done_, ": ", what, " is slow: its ", s.peer.valid() ? "messages" : "sums", " take ", factor,
                 " times the forecast, up to ", s.cost, " of an iteration");
}

void TrainingLoop::tell(const Comparison& c) {
  std::fputs(key_values({{"forecast", in_words(c)}}).c_str(), stdout);
  std::fflush(stdout);
  journal::ForecastRecord record;
  record.step = done_;
  record.forecast_seconds = c.forecast.value;
  record.relative_error = c.relative_error;
  record.measured_seconds = c.measured.value;
  record.iterations = static_cast<std::int64_t>(c.iterations);
  record.inside_error_bar = c.inside_error_bar();
  metrics_->write(record);
  if (!c.inside_error_bar())
    log::warning("iterations take ", percent(std::abs(c.deviation())), c.deviation() > 0 ? " longer" : " less",
                 " than forecast, outside its error bar of ", percent(c.relative_error),
                 "; other work on the devices, or a profile that is no longer true: --probe.fresh-for=0s measures again");
}

void TrainingLoop::evaluate_if_due() {
  const auto every = in_.job.training.evaluate_every;
  if (every <= 0 || (done_ % every != 0 && done_ != in_.job.training.steps)) return;
  const Seconds begin = now();
  journal::EvaluationRecord record;
  record.step = done_;
  record.loss = in_.trainer.evaluate();
  record.sequences = in_.job.training.evaluate_sequences;
  record.seconds = (now() - begin).value;
  if (!speaks()) return;
  metrics_->write(record);
  say(journal::evaluation_line(record, in_.job.training.steps));
}

bool TrainingLoop::save_due(const train::StepResult& result) const {
  const auto every = in_.job.checkpoint.every;
  return result.save || (every > 0 && done_ % every == 0);
}

Seconds TrainingLoop::longest_save_so_far() const {
  Seconds longest;
  for (const auto& save : journal::read_metrics(in_.allocation.run()).checkpoints) longest = std::max(longest, Seconds{save.seconds});
  return longest;
}

void TrainingLoop::save() {
  if (saved_ != done_) save(in_.manifest);
}

void TrainingLoop::save(checkpoint::Manifest manifest) {
  in_.ahead->wait();  // it makes communicators, and so does the file
  comm::agree_on(
      in_.crew, "holding the run directory", [&] { in_.allocation.require_lock(); }, in_.job.comm.deadline);
  manifest.step = done_;
  manifest.optimizer_steps = in_.trainer.optimizer_steps();
  manifest.sequences = done_ * in_.job.training.global_batch;
  checkpoint::SaveOptions options;
  options.keep = in_.job.checkpoint.keep;
  options.deadline = in_.job.comm.deadline;
  const auto report = checkpoint::save(in_.crew, in_.allocation.run(), in_.trainer.state(), manifest, options);
  saved_ = done_;
  last_save_ = now();
  if (!speaks()) return;
  journal::CheckpointRecord record;
  record.step = done_;
  record.bytes = report.size.count;
  record.seconds = report.total.value;
  time_left_.save = std::max(time_left_.save, report.total);
  metrics_->write(record);
  if (prometheus_) prometheus_->saved(done_);
  say(journal::checkpoint_line(record, in_.job.training.steps));
}

Ending TrainingLoop::hand_over(const std::string& plan, const std::string& why) {
  auto manifest = in_.manifest;
  manifest.plan = plan;
  save(std::move(manifest));
  return ended(ExitCode::requeue, text(why, ": saved at step ", done_, " under the next plan"));
}

Ending TrainingLoop::ended(ExitCode code, std::string reason) {
  if (speaks()) {
    if (const auto comparison = check_.finish()) tell(*comparison);
    journal::StopRecord stop;
    stop.step = done_;
    stop.exit_code = code;
    stop.reason = reason;
    metrics_->write(stop);
  }
  return {code, std::move(reason), done_, {}, now(), 0};
}

}  // namespace flotilla::app
