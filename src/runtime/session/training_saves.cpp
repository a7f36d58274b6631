// The training loop's checkpoints: when nothing else runs, and beside the steps.
#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/journal/history.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/session/same_run.hpp"
#include "flotilla/store/disk.hpp"
#include "training_loop.hpp"

namespace flotilla::session {

/// Of a parameter in a checkpoint: the weight in fp32, and two moments.
constexpr std::int64_t bytes_of_frozen = 4, bytes_of_trained = 12;

Seconds TrainingLoop::longest_save_so_far() const {
  Seconds longest;
  for (const auto& save : journal::read_metrics(in_.allocation.run()).checkpoints)
    if (save.in_run_directory()) longest = std::max(longest, Seconds{save.seconds});
  return longest;
}

void TrainingLoop::begin_interval() {
  const auto& checkpoint = in_.config.checkpoint;
  if (checkpoint.node_mtbf.value <= 0) return;
  failures_.emplace(checkpoint.node_mtbf, journal::read_history(in_.allocation.run()));
  auto saves = journal::read_metrics(in_.allocation.run()).checkpoints;
  std::erase_if(saves,
                [this](const auto& save) { return save.in_run_directory() == in_.local.has_value(); });  // a drain costs next to nothing
  if (saves.empty())
    schedule_.every_time = first_interval;
  else
    choose_interval(cost_of(saves.back()));
}

void TrainingLoop::choose_interval(const SaveCost& save) {
  std::set<std::string> hosts;
  for (int r = 0; r < in_.active.size(); ++r) hosts.insert(in_.active.host(Rank{r}));
  const auto mtbf = failures_->job_mtbf(static_cast<int>(hosts.size()), now() - began_);
  const Seconds interval = best_checkpoint_interval(save, mtbf);
  schedule_.every_time = interval;
  // Said once, and when it has become another: saves vary.
  if (std::max(told_interval_, interval) < 2 * std::min(told_interval_, interval)) return;
  told_interval_ = interval;
  print(text("checkpoints every ", interval, ": a save costs ", save.pause, ", a failure is expected every ", mtbf, " (", failures_->seen(),
             " so far)\n"));
}

void TrainingLoop::save() {
  if (!settle_save() || saved_ == done_) return;
  if (in_.local && !in_.background && save_locally_now(in_.manifest)) return;
  const auto failure = attempt([&] { in_.background ? begin_save(in_.manifest) : save_now(in_.manifest); });
  if (failure) warn_of(*failure);
}

bool TrainingLoop::attend() {
  auto found = found_;
  if (in_.local) {  // there are two things that may be over
    const auto words = text(found.saved, found.drained, found.due);
    const auto told = mpi::broadcast_string(in_.active.control(), words, 0, in_.config.comm.deadline);
    found = {told.at(0) == '1', told.at(1) == '1', told.at(2) == '1'};
  } else {
    found = {save_under_way(), false, !save_under_way()};
  }
  if (found.drained) settle_drain();
  const bool was_local = writing_.local;
  if (found.saved && !settle_save() && was_local) return true;  // now into the run directory
  return found.due;
}

void TrainingLoop::complete_copy() {
  if (!save_under_way()) return;
  const Seconds since = now();
  in_.background->complete_copy();
  writing_.pause = writing_.pause + (now() - since);
}

bool TrainingLoop::settle_save() {
  if (!save_under_way()) return true;
  const Seconds since = now();
  if (writing_.local) {
    try {
      const auto report = in_.background->wait();
      note_local(writing_.step, report, writing_.pause + (now() - since));
      return true;
    } catch (const comm::AgreedError& failure) {
      warn_of_local(failure);
      return false;
    }
  }
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

void TrainingLoop::settle() {
  settle_save();
  if (drain_under_way() && speaks()) log::info("waiting for step ", draining_.step, " to be drained into ", in_.allocation.run().string());
  while (drain_under_way()) settle_drain();
}

void TrainingLoop::warn_of(const comm::AgreedError& failure) const {
  if (retry_.failures() == 1 && speaks())
    log::warning(failure.what(), "; training continues, and the save is tried again",
                 saved_ > 0 ? text(": until then the checkpoint of step ", saved_, " is the newest") : "");
}

void TrainingLoop::save_for_the_end(const checkpoint::Manifest& manifest) {
  if (to_drain_ && *to_drain_ != done_) to_drain_.reset();  // the one that follows is newer
  settle();
  if (in_run_ == done_) return;
  for (RoomWait wait{now(), in_.config.checkpoint.wait_for_room, {}, {}};;) {
    const auto failure = attempt([&] { save_now(manifest); });
    if (!failure) return;
    const auto pause = pause_for_room(wait);
    if (!pause) throw comm::AgreedError{failure->kind(), text(failure->what(), "; there was no room in time to save step ", done_)};
    if (speaks() && wait.line_is_due(now()))
      log::warning(failure->what(), "; waiting for room to save step ", done_, ": ", room_in_words(), "; ", wait.last() - now(), " more (",
                   wait.killed ? "until it is killed" : "--checkpoint.wait-for-room", ")");
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
  while (drain_under_way()) settle_drain();  // one at a time writes there
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
  const bool local = in_.local && !local_full_;
  local_full_ = false;  // the next one is to try again
  if (!local)
    while (drain_under_way()) settle_drain();
  manifest = completed(std::move(manifest));
  if (local)
    in_.background->begin(in_.trainer.state(), [place = *in_.local, manifest, options = save_options()](
                                                   const comm::World& world, const checkpoint::LocalState& kept) {
      return checkpoint::save_locally(world, place, kept, manifest, options);
    });
  else
    in_.background->begin(in_.allocation.run(), in_.trainer.state(), manifest, save_options());
  last_save_ = now();
  writing_ = {done_, begun, last_save_ - begun, local};
}

void TrainingLoop::note_saved(journal::CheckpointRecord record) {
  saved_ = std::max(saved_, record.step);
  in_run_ = record.step;
  if (to_drain_ && *to_drain_ <= in_run_) to_drain_.reset();
  if (in_.local) checkpoint::remove_parts(*in_.local, in_.active.rank(), in_run_);
  const bool failed_before = retry_.failing() || drain_retry_.failing();
  retry_.worked();
  drain_retry_.worked();
  if (!speaks()) return;
  if (failed_before) log::info("the run directory has room again: saved at step ", record.step);
  in_.totals->saved_step = record.step;
  time_left_.save = std::max(time_left_.save, Seconds{record.seconds});
  if (failures_ && !in_.local) choose_interval(cost_of(record));
  metrics_->write(record);
  note_data();
  if (tensorboard_) tensorboard_->write(record);
  if (prometheus_) prometheus_->saved(record.step);
  print(journal::checkpoint_line(record, in_.config.training.steps) + "\n");
  if (done_ < in_.config.training.steps && !std::exchange(told_room_, true)) tell_room(Bytes{record.bytes});
}

/// What a checkpoint needs, and what is free for it.
std::string TrainingLoop::room_in_words() const {
  Bytes needed;
  for (const auto& tensor : *in_.trainer.state().tensors)
    needed.count += tensor.elements() * (tensor.trained ? bytes_of_trained : bytes_of_frozen);
  try {
    return text(needed, " are needed, ", store::free_space(in_.allocation.run()), " are free");
  } catch (const Error& away) {
    return text(needed, " are needed");
  }
}

/// How many more checkpoints fit, and whether those that will be there fit.
void TrainingLoop::tell_room(Bytes size) const {
  const auto& run = in_.allocation.run();
  const auto& checkpoint = in_.config.checkpoint;
  try {
    const auto free = store::free_space(run);
    const auto fit = free.count / std::max<std::int64_t>(size.count, 1);
    const auto there = std::ssize(checkpoint::list(run));
    // One more than are kept is there while the newest is written.
    const std::int64_t due = checkpoint.keep > 0    ? checkpoint.keep + 1 - there
                             : checkpoint.every > 0 ? (in_.config.training.steps - done_) / checkpoint.every
                                                    : 0;
    const auto room = text("room for ", fit, " more of this size (", free, " free)");
    if (fit >= due)
      print(room + "\n");
    else
      log::warning(run.string(), ": ", room, ", and ", due, " are to come (--checkpoint.keep ", checkpoint.keep,
                   "); make room or keep fewer");
  } catch (const Error& error) {  // the next save says what is wrong
    log::debug(error.what());
  }
}

TimeLeft TrainingLoop::time_left() const {
  if (drain_under_way()) return time_left_.after_save(now(), draining_.begun);
  return save_under_way() && !writing_.local ? time_left_.after_save(now(), writing_.begun) : time_left_;
}

}  // namespace flotilla::session
