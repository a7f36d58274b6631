// The training loop's checkpoints: when nothing else runs, and beside the steps.
#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/journal/history.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/session/same_run.hpp"
#include "training_loop.hpp"

namespace flotilla::session {

Seconds TrainingLoop::longest_save_so_far() const {
  Seconds longest;
  for (const auto& save : journal::read_metrics(in_.allocation.run()).checkpoints) longest = std::max(longest, Seconds{save.seconds});
  return longest;
}

void TrainingLoop::begin_interval() {
  const auto& checkpoint = in_.config.checkpoint;
  if (checkpoint.node_mtbf.value <= 0) return;
  failures_.emplace(checkpoint.node_mtbf, journal::read_history(in_.allocation.run()));
  const auto saves = journal::read_metrics(in_.allocation.run()).checkpoints;
  if (saves.empty())
    schedule_.every_time = first_interval;
  else
    choose_interval(Seconds{saves.back().pause()});
}

void TrainingLoop::choose_interval(Seconds save) {
  std::set<std::string> hosts;
  for (int r = 0; r < in_.active.size(); ++r) hosts.insert(in_.active.host(Rank{r}));
  const auto mtbf = failures_->job_mtbf(static_cast<int>(hosts.size()), now() - began_);
  const Seconds interval = best_checkpoint_interval(save, mtbf);
  schedule_.every_time = interval;
  // Said once, and when it has become another: saves vary.
  if (std::max(told_interval_, interval) < 2 * std::min(told_interval_, interval)) return;
  told_interval_ = interval;
  print(text("checkpoints every ", interval, ": a save costs ", save, ", a failure is expected every ", mtbf, " (",
             failures_->seen(), " so far)\n"));
}

void TrainingLoop::save() {
  if (!settle() || saved_ == done_) return;
  const auto failure = attempt([&] { in_.background ? begin_save(in_.manifest) : save_now(in_.manifest); });
  if (failure) warn_of(*failure);
}

bool TrainingLoop::settle() {
  if (!save_under_way()) return true;
  const Seconds since = now();
  const auto failure = attempt([&] {
    const auto report = in_.background->wait();
    journal::CheckpointRecord record;
    record.step = writing_.step;
    record.bytes = report.size.count;
    record.seconds = (now() - writing_.begun).value;
    record.pause_seconds = (writing_.pause + (now() - since)).value;
    note_saved(record);
  });
  if (failure) warn_of(*failure);
  return !failure;
}

void TrainingLoop::warn_of(const comm::AgreedError& failure) const {
  if (retry_.failures() == 1 && speaks())
    log::warning(failure.what(), "; training continues, and the save is tried again",
                 saved_ > 0 ? text(": until then the checkpoint of step ", saved_, " is the newest") : "");
}

void TrainingLoop::save_for_the_end(const checkpoint::Manifest& manifest) {
  settle();
  if (saved_ == done_) return;
  RoomWait wait;
  wait.began = now();
  for (bool told = false;; told = true) {
    const auto failure = attempt([&] { save_now(manifest); });
    if (!failure) return;
    const auto pause = pause_for_room(wait);
    if (!pause) throw comm::AgreedError{failure->kind(), text(failure->what(), "; there was no room in time to save step ", done_)};
    if (speaks() && !told) log::warning(failure->what(), "; waiting for room to save step ", done_, " before the run ends");
    std::this_thread::sleep_for(std::chrono::duration<double>{pause->value});
  }
}

std::optional<Seconds> TrainingLoop::pause_for_room(RoomWait& wait) const {
  std::string words;
  if (speaks()) {
    const auto urgent = in_.allocation.urgent_since();
    wait.killed = time_of_kill(urgent ? std::optional{*urgent + in_.config.run.grace} : std::nullopt, in_.ends);
    wait.save = time_left_.save;
    if (const auto pause = wait.pause(now(), retry_.failures())) words = std::to_string(pause->value);
  }
  words = mpi::broadcast_string(in_.active.control(), words, 0, in_.config.comm.deadline);
  return words.empty() ? std::nullopt : std::optional{Seconds{std::stod(words)}};
}

std::optional<comm::AgreedError> TrainingLoop::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const comm::AgreedError& error) {
    if (error.kind() != ErrorKind::temporary) throw;
    retry_.failed(now());
    return error;
  }
  return std::nullopt;
}

checkpoint::Manifest TrainingLoop::completed(checkpoint::Manifest manifest) const {
  comm::agree_on(
      in_.active, "holding the run directory", [&] { in_.allocation.require_lock(); }, in_.config.comm.deadline);
  manifest.step = done_;
  manifest.optimizer_steps = in_.trainer.optimizer_steps();
  manifest.loss_scale = in_.trainer.loss_scale();
  manifest.sequences = sequences_before(in_.phases, done_);
  manifest.training = training_identity(in_.config, done_);
  if (!phase().name.empty()) manifest.provenance.emplace_back("phase", phase().name);
  manifest.exploded = 2 * skipped_ > done_ - std::max(saved_, in_.first_step);
  return manifest;
}

checkpoint::SaveOptions TrainingLoop::save_options() const {
  checkpoint::SaveOptions options;
  options.keep = in_.config.checkpoint.keep;
  options.deadline = in_.config.comm.deadline;
  return options;
}

void TrainingLoop::save_now(checkpoint::Manifest manifest) {
  manifest = completed(std::move(manifest));
  const auto report = checkpoint::save(in_.active, in_.allocation.run(), in_.trainer.state(), manifest, save_options());
  last_save_ = now();
  journal::CheckpointRecord record;
  record.step = done_;
  record.bytes = report.size.count;
  record.seconds = report.total.value;
  note_saved(record);
}

void TrainingLoop::begin_save(checkpoint::Manifest manifest) {
  const Seconds begun = now();
  in_.background->begin(in_.allocation.run(), in_.trainer.state(), completed(std::move(manifest)), save_options());
  last_save_ = now();
  writing_ = {done_, begun, last_save_ - begun};
}

void TrainingLoop::note_saved(journal::CheckpointRecord record) {
  saved_ = record.step;
  const bool failed_before = retry_.failing();
  retry_.worked();
  if (!speaks()) return;
  if (failed_before) log::info("the run directory has room again: saved at step ", record.step);
  in_.totals->saved_step = record.step;
  time_left_.save = std::max(time_left_.save, Seconds{record.seconds});
  if (failures_) choose_interval(Seconds{record.pause()});
  metrics_->write(record);
  note_data();
  if (tensorboard_) tensorboard_->write(record);
  if (prometheus_) prometheus_->saved(record.step);
  print(printable_lines(journal::checkpoint_line(record, in_.config.training.steps)) + "\n");
}

TimeLeft TrainingLoop::time_left() const { return save_under_way() ? time_left_.after_save(now(), writing_.begun) : time_left_; }

}  // namespace flotilla::session
