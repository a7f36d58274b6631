#include "training_loop.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "flotilla/monitor/measured_timeline.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/options/documents.hpp"
#include "profile_feedback.hpp"
#include "step_outcome.hpp"

#ifndef FLOTILLA_VERSION
#error "the build defines FLOTILLA_VERSION"
#endif

namespace flotilla::session {
namespace {

constexpr int words_width = 68;  // beside a key, on 80 columns
constexpr const char* outside_in_words =
    "outside its error bar: other work on the devices, or a stale profile (--probe.fresh-for=0s measures again)";

void say(const std::string& line) { print(line + "\n"); }

}  // namespace

TrainingLoop::TrainingLoop(LoopInput input)
    : in_{std::move(input)},
      schedule_{in_.config.checkpoint.every, in_.config.checkpoint.every_time},
      began_{now()},
      updates_before_{in_.trainer.optimizer_steps()},
      done_{in_.first_step},
      saved_{in_.change ? -1 : in_.first_step},
      in_run_{saved_},
      last_save_{now()},
      guard_{surroundings(), in_.active.rank() == Rank{0}, in_.config.run.grace, in_.ends},
      search_{in_.plan_again} {
  in_.trainer.give_up_when([this](std::int64_t step) { return in_.allocation.watch()->given_up() == step; });
  in_.trainer.before_updates([this] { complete_copy(); });
  const auto& plan = in_.trainer.program().plan;
  flops_per_step_ = model::training_flops_per_token(plan.model, plan.length) * plan.length * plan.global_batch;
  if (in_.active.rank() == Rank{0}) {
    begin_metrics();
    check_ = monitor::ForecastCheck{in_.forecast, in_.active_ranks.front()};
    time_left_ = {in_.ends, in_.config.run.stop_slack, {}, in_.longest_save ? *in_.longest_save : longest_save_so_far()};
    begin_interval();
  }
  const monitor::ActiveRun run{in_.active, in_.trainer, in_.profile, in_.active_ranks, in_.config.comm.deadline};
  speed_.emplace(run, in_.forecast, metrics_ ? &*metrics_ : nullptr);
  feedback_.emplace(run, in_.forecast);
}

StepGuard::Surroundings TrainingLoop::surroundings() {
  auto& allocation = in_.allocation;
  return {[&allocation] { allocation.relay_urgent_signals(); }, [&allocation] { return allocation.urgent_since(); },
          [&allocation] { return allocation.stop_wanted().has_value(); },
          [&allocation](std::int64_t step) { allocation.watch()->give_up(step); }};
}

void TrainingLoop::note_devices(std::vector<journal::InventoryEntry> devices, const std::string& origin) {
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
  if (const auto& file = in_.config.report.prometheus; !file.empty())
    prometheus_.emplace(file, in_.allocation.run().string(), in_.allocation.job());
  if (const auto& folder = in_.config.report.tensorboard; !folder.empty())
    tensorboard_.emplace(folder, in_.active.host(Rank{0}), in_.allocation.incarnation(), done_,
                         journal::TensorboardFile::Texts{in_.config.configuration, in_.plan_summary, in_.manifest.plan});
  if (in_.change) return tell(*in_.change);
  journal::StartRecord start;
  start.step = done_;
  start.ranks = in_.active.size();
  start.plan = in_.plan_summary;
  start.host = in_.active.host(Rank{0});
  start.version = FLOTILLA_VERSION;
  start.changed = in_.changed;
  metrics_->write(start);
  note_data();
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
  if (!change.refused.empty()) return log::warning("the plan is kept (", change.reason, "): ", change.refused);
  say(text("plan changed after step ", change.step, " (", change.reason, "): ", change.moved, " moved, pause ",
           Seconds{record.pause_seconds}, "\nplan      ", in_.plan_summary));
}

SegmentResult TrainingLoop::run() {
  try {
    auto segment_result = run_steps();
    settle();  // whoever goes on may change the state, and these ranks
    search_.end();
    return segment_result;
  } catch (const comm::AgreedError&) {  // all ranks are here: the checkpoint of an earlier step is still made
    settle();
    throw;
  }
}

SegmentResult TrainingLoop::run_steps() {
  const auto& config = in_.config;
  in_.allocation.set_step(done_);
  while (done_ < last_step()) {
    note_phase();
    const Seconds begin = now();
    auto result = one_step();
    if (result.given_up) return leave_step();
    require_finite(result);
    ++done_;
    if (result.empty())
      ++empty_;
    else
      skipped_ = result.finite || result.overflowed ? 0 : skipped_ + 1;
    in_.allocation.set_step(done_);
    note_started();
    const Seconds took = now() - begin;
    report(result, took);
    check_forecast(took);
    check_speed(took);
    evaluate_if_due();
    if (result.save) result.save = attend();
    const auto outcome = outcome_of(result, done_, config.training.steps, retry_.failing() ? SaveSchedule{} : schedule_);
    if (outcome.ends()) in_.ahead->abandon();
    if (outcome.ends())
      save_for_the_end(in_.manifest);
    else if (outcome.save)
      save();
    if (outcome.then == StepOutcome::Then::stop) return ended(ExitCode::requeue, text(why_stopped(), ": saved at step ", done_));
    if (outcome.then == StepOutcome::Then::change_plan)
      if (auto segment_result = advance_change()) return *segment_result;
  }
  return done_ < config.training.steps ? leave_phase() : finished();
}

/// A run that has come to nothing has not done what it was asked for, however many steps were skipped on the way. As a checkpoint counts as
/// exploded; fp16's scale may also have overflowed in every step.
SegmentResult TrainingLoop::finished() {
  const auto steps = done_ - in_.first_step, lost = in_.trainer.optimizer_steps() == updates_before_ ? steps - empty_ : skipped_;
  if (empty_ == steps && steps > 0)
    return ended(ExitCode::bad_input, text("none of ", steps, " steps updated the weights: ", nothing_counts_in_words(phase().length)));
  if (2 * lost <= steps) return ended(ExitCode::done, "finished");
  return ended(ExitCode::bad_input, text("the last ", lost, " of ", steps,
                                         " steps updated no weights: losses or gradients were not finite; start from an earlier checkpoint "
                                         "(--run.from), or lower --training.learning-rate"));
}

std::int64_t TrainingLoop::last_step() const {
  return in_.end_phase < in_.phases.size() ? in_.phases[in_.end_phase].first_step : in_.config.training.steps;
}

void TrainingLoop::note_phase() {
  const auto& next = in_.phases[phase_after(in_.phases, done_)];
  if (!speaks() || next.name.empty() || (done_ != next.first_step && (in_.change || done_ != in_.first_step))) return;
  metrics_->write(journal::PhaseRecord{done_, next.name, next.length, next.global_batch});
  say(in_words(next));
}

SegmentResult TrainingLoop::leave_phase() {
  if (switch_.preparing())  // ranks without work are at it, too: it is taken up or refused before another is made ready
    if (auto segment_result = advance_change()) return *segment_result;
  const Seconds since = now();
  in_.make_ready(in_.next_phase);
  const auto refused = in_.ahead->wait()->refused;
  if (refused.empty())
    return {ExitCode::done, "the run continues with the next phase", done_, true,
            since,          in_.trainer.optimizer_steps(),           false, in_.trainer.loss_scale()};
  in_.ahead->drop();
  save_for_the_end(in_.manifest);
  return ended(ExitCode::requeue, text(in_.phases[in_.end_phase].name, ": ", refused, ": saved at step ", done_));
}

void TrainingLoop::note_started() {
  auto& start = in_.allocation.start();
  if (start.over()) return;
  start.reach(StartPhase::running);
  if (!speaks()) return;
  journal::StartedRecord record;
  record.step = done_;
  const auto& took = start.took();
  const auto seconds = [&](StartPhase phase) { return took.at(static_cast<std::size_t>(phase)).value; };
  record.opening_seconds = seconds(StartPhase::opening);
  record.measuring_seconds = seconds(StartPhase::measuring);
  record.planning_seconds = seconds(StartPhase::planning);
  record.connecting_seconds = seconds(StartPhase::connecting);
  record.loading_seconds = seconds(StartPhase::loading);
  record.first_step_seconds = seconds(StartPhase::first_step);
  metrics_->write(record);
}

std::optional<SegmentResult> TrainingLoop::advance_change() {
  if (switch_.advance() == PlanSwitch::Advance::prepare) {
    in_.make_ready(switch_.wanted());
    return std::nullopt;
  }
  const Seconds since = now();
  const auto* ready = in_.ahead->wait();
  if (ready->refused.empty())
    return SegmentResult{ExitCode::done, "the run continues under another plan", done_, true,
                         since,          in_.trainer.optimizer_steps(),          false, in_.trainer.loss_scale()};
  if (speaks()) tell(PlanChange{done_, ready->next.reason, since, {}, ready->refused, {}});
  switch_.refuse();
  in_.ahead->drop();
  return std::nullopt;
}

SegmentResult TrainingLoop::leave_step() {
  notes_stop();
  in_.ahead->abandon();
  save_for_the_end(in_.manifest);
  const auto kept = done_ > 0 ? text("; saved at step ", done_) : ", and none is done yet";
  return ended(ExitCode::requeue, text(why_stopped(), ": no time for step ", done_ + 1, " and a save", kept));
}

bool TrainingLoop::notes_stop() {
  const auto stop = in_.allocation.stop_wanted();
  if (stop && stop_reason_.empty()) stop_reason_ = *stop;
  return stop.has_value();
}

train::StepRequests TrainingLoop::step_requests() {
  train::StepRequests step_requests;
  step_requests.stop = notes_stop();
  if (speaks() && time_left().last_step(now())) {
    if (stop_reason_.empty()) stop_reason_ = "the job's time is nearly over";
    step_requests.stop = true;
  }
  if (speaks()) look_for_next_plan();
  step_requests.change = switch_.tells(in_.ahead->over());
  // Where a peer was lost, any rank may hear of it first.
  found_.saved = save_under_way() && in_.background->over();
  found_.drained = drain_under_way() ? in_.drains->over() : to_drain_ && drain_retry_.due(now());
  found_.due = !save_under_way() && (retry_.failing() ? retry_.due(now()) : schedule_.due_at(now(), last_save_));
  step_requests.save = speaks() && (found_.saved || found_.drained || found_.due);
  return step_requests;
}

void TrainingLoop::look_for_next_plan() {
  disturbed_ = disturbed_ || switch_.preparing() || search_.under_way();
  if (switch_.wanted()) return;
  auto transfer_sources = in_.next_plan ? in_.next_plan() : std::nullopt;
  if (transfer_sources && !transfer_sources->refused.empty()) {
    tell(PlanChange{done_, transfer_sources->reason, now(), {}, transfer_sources->refused, {}});
    transfer_sources.reset();
  }
  if (!transfer_sources) transfer_sources = search_.answer();
  if (transfer_sources) switch_.want(std::move(*transfer_sources));
}

std::string TrainingLoop::why_stopped() const {
  // A signal reaches one rank, and the one that keeps the books is seldom it.
  for (auto& reason : mpi::all_gather_strings(in_.active.control(), stop_reason_, in_.config.comm.deadline))
    if (!reason.empty()) return reason;
  return "a stop was requested";
}

train::StepResult TrainingLoop::one_step() {
  const auto wanted = step_requests();
  guard_.begin(done_, time_left(), wanted.stop);
  const auto result = in_.trainer.step(done_, wanted);
  guard_.end();
  return result;
}

std::string TrainingLoop::at_scale_floor(const train::StepResult& result) const {
  const bool scales = in_.trainer.program().plan.precision == Precision::fp16;
  if (!scales || result.loss_scale > train::smallest_loss_scale) return {};
  return text("; the loss scale is at its floor of ", train::smallest_loss_scale,
              ": fp16 cannot hold these gradients, bf16 and fp32 can: --training.precision bf16");
}

void TrainingLoop::require_finite(const train::StepResult& result) const {
  if (result.finite) return;
  if (result.overflowed) {
    if (speaks()) log::info(overflow_in_words(result, done_ + 1));
    return;
  }
  const auto line = not_finite_in_words(result, done_ + 1, [this](Rank rank) { return in_.active.name(rank); });
  if (in_.config.training.skip_non_finite) {
    if (speaks()) log::warning(line, at_scale_floor(result), "; the optimizer step is skipped");
    return;
  }
  const auto floor = at_scale_floor(result);
  const std::string advice = floor.empty() ? ": lower --training.learning-rate or set --training.skip-non-finite" : "";
  // Every rank comes here with the same totals, so agreement is immediate and the parameters are those of the step before.
  throw comm::AgreedError{ErrorKind::bad_input, line + floor + "; checkpoints are as they were" + advice};
}

void TrainingLoop::report(const train::StepResult& result, Seconds took) {
  if (!speaks()) return;
  recent_.add(took);
  time_left_.step = recent_.longest();
  const auto& plan = in_.trainer.program().plan;
  in_.totals->add_step(done_, result, took, static_cast<std::int64_t>(plan.global_batch) * plan.length);
  if (result.empty() && in_.totals->empty_steps == 1)
    log::warning("step ", done_, ": no update: ", nothing_counts_in_words(plan.length), "; further such steps are counted at the end");
  journal::StepRecord record;
  record.step = done_;
  record.loss = result.loss;
  if (const auto all = static_cast<std::int64_t>(plan.global_batch) * plan.length; result.counted_tokens != all)
    record.counted_tokens = result.counted_tokens;
  record.digest = hex(result.digest);
  for (std::size_t s = 0; s < result.sources.size(); ++s)
    if (const auto& sum = result.sources[s]; sum.tokens > 0)
      record.sources.push_back({in_.data.training.sources()[s].name, sum.mean(), sum.tokens});
  record.tokens_per_second = static_cast<double>(plan.global_batch) * plan.length / took.value;
  record.step_seconds = took.value;
  record.share_of_peak = in_.peak_flops > 0 ? flops_per_step_ / (took.value * in_.peak_flops) : 0;
  record.learning_rate = result.learning_rate;
  record.gradient_norm = result.gradient_norm;
  record.eta_seconds = journal::remaining_time(recent_.seconds(), equivalent_steps_left(in_.phases, phase(), done_)).value;
  record.incarnation = in_.allocation.incarnation();
  metrics_->write(record);
  if (tensorboard_) tensorboard_->write(record);
  if (prometheus_) prometheus_->update(record, done_ == in_.config.training.steps || result.stop);
  // mpirun gives ranks a terminal of its own whatever its output is, so the terminal says nothing: log-every decides alone.
  if (journal::gets_line(done_, in_.first_step + 1, in_.config.training.steps, in_.config.run.log_every, false))
    say(journal::step_line(record, in_.config.training.steps));
}

/// The first iterations against forecast and profile: both are over after the same one, and what is found is said at once.
void TrainingLoop::check_forecast(Seconds took) {
  std::optional<monitor::ForecastComparison> comparison;
  if (check_.open()) comparison = check_.add(took, monitor::measured_spans(in_.trainer, in_.active.rank()));
  std::string why;
  if (const auto proof = feedback_->add(took); proof && !proof->wrong.empty()) why = correct_profile(*proof);
  if (comparison)
    tell(*comparison, why);
  else if (!why.empty())
    print(key_values({{"profile", options::wrap(why, 0, words_width)}}));
}

void TrainingLoop::check_speed(Seconds took) {
  const auto window = speed_->add(done_, took, disturbed_);
  if (window == monitor::SpeedWatch::Window::open) return;
  disturbed_ = false;
  if (window == monitor::SpeedWatch::Window::tells) search_again();
}

/// What was wrong, in words.
std::string TrainingLoop::correct_profile(const monitor::Proof& proof) {
  try {
    auto feedback = feedback_of(proof, in_.profile, in_.forecast.iteration, in_.forecast_by, in_.config.run.directory, done_);
    if (feedback.nearer) {
      write_corrected(in_.corrected_profile, feedback);
      feedback.record.file = in_.corrected_profile.filename().string();
    }
    metrics_->write(feedback.record);
    if (feedback.nearer) {
      search_.end();  // it reads the profile
      search_.answer();
      in_.adopt_profile(std::move(feedback.profile));
      search_again();
    }
    return journal::correction_in_short(feedback.record);
  } catch (const Error& error) {  // of this rank alone, and no step depends on it
    log::warning("correcting the profile: ", error.what(), "; it stayed as it was");
    return {};
  }
}

void TrainingLoop::search_again() {
  if (!switch_.wanted()) search_.begin(speed_->slow_now(), last_step() - done_);
}

void TrainingLoop::tell(const monitor::ForecastComparison& c, const std::string& why) {
  journal::ForecastRecord record;
  record.step = done_;
  record.forecast_seconds = c.forecast.value;
  record.relative_error = c.relative_error;
  record.measured_seconds = c.measured.value;
  record.iterations = static_cast<std::int64_t>(c.iterations);
  record.inside_error_bar = c.inside_error_bar();
  metrics_->write(record);
  auto words = in_words(c);
  if (!why.empty())
    words += "\n" + options::wrap(why, 0, words_width);
  else if (!c.inside_error_bar())
    words += "\n" + options::wrap(outside_in_words, 0, words_width);
  print(key_values({{"forecast", words}}));
}

void TrainingLoop::evaluate_if_due() {
  const auto every = in_.config.training.evaluate_every;
  if (every <= 0 || (done_ % every != 0 && done_ != in_.config.training.steps)) return;
  const auto record = evaluate();
  if (!speaks()) return;
  metrics_->write(record);
  if (tensorboard_) tensorboard_->write(record);
  say(journal::evaluation_line(record, in_.config.training.steps));
}

journal::EvaluationRecord TrainingLoop::evaluate() {
  const Seconds begin = now();
  journal::EvaluationRecord record;
  record.step = done_;
  record.sequences = in_.config.training.evaluate_sequences;
  double weights = 0;
  const auto& sources = in_.data.validation->sources();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto sum = in_.trainer.evaluate(static_cast<int>(i));
    if (!sources[i].name.empty()) record.sources.push_back({sources[i].name, sum.mean()});
    record.loss += sources[i].weight * sum.mean();
    weights += sources[i].weight;
  }
  record.loss /= weights;
  record.seconds = (now() - begin).value;
  return record;
}

void TrainingLoop::note_data() {
  const auto& training = in_.data.training;
  if (!speaks() || training.sources().front().name.empty()) return;
  journal::DataRecord record;
  record.step = done_;
  const auto drawn = training.drawn(done_);
  for (std::size_t i = 0; i < drawn.size(); ++i)
    record.sources.push_back({training.sources()[i].name, training.sources()[i].weight,
                              training.sequences_per_epoch(static_cast<int>(i), phase().length), drawn[i]});
  metrics_->write(record);
}

SegmentResult TrainingLoop::hand_over(const plan::Plan& plan, const std::string& why) {
  auto manifest = in_.manifest;
  manifest.plan = files::plan_to_json(plan);
  saved_ = in_run_ = -1;  // the same step under another plan is another checkpoint
  save_for_the_end(manifest);
  return ended(ExitCode::requeue, text(why, ": saved at step ", done_, " under the next plan"));
}

SegmentResult TrainingLoop::ended(ExitCode code, std::string reason) {
  if (speaks()) {
    if (const auto comparison = check_.finish()) tell(*comparison, "");
    journal::StopRecord stop;
    stop.step = done_;
    stop.exit_code = code;
    stop.reason = reason;
    metrics_->write(stop);
  }
  return {code, std::move(reason), done_, false, now(), 0};
}

}  // namespace flotilla::session
