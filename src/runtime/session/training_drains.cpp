// The training loop's checkpoints on the nodes' own storage, and their way into the run directory beside the steps.
#include "active_ranks.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/journal/console.hpp"
#include "flotilla/model/tensors.hpp"
#include "training_loop.hpp"

namespace flotilla::session {

bool TrainingLoop::save_locally_now(checkpoint::Manifest manifest) {
  manifest = completed(std::move(manifest));
  try {
    const auto report = checkpoint::save_locally(in_.active, *in_.local, in_.trainer.state(), manifest, save_options());
    last_save_ = now();
    note_local(done_, report, std::nullopt);
    return true;
  } catch (const comm::AgreedError& failure) {
    warn_of_local(failure);
    return false;
  }
}

void TrainingLoop::note_local(std::int64_t step, const checkpoint::SaveReport& report, std::optional<Seconds> pause) {
  saved_ = step;
  local_full_ = false;
  to_drain_ = step;
  checkpoint::remove_parts(*in_.local, in_.active.rank(), step - 1, drain_under_way() ? draining_.step : -1);
  if (!drain_retry_.failing()) begin_drain();
  if (!speaks()) return;
  journal::CheckpointRecord record;
  record.step = step;
  record.bytes = report.size.count;
  record.seconds = report.total.value;
  if (pause) record.pause_seconds = pause->value;
  record.local = report.directory.string();
  record.hosts = hosts_of(in_.active);
  if (failures_) choose_interval(cost_of(record));
  metrics_->write(record);
  print(journal::checkpoint_line(record, in_.config.training.steps) + "\n");
}

void TrainingLoop::warn_of_local(const comm::AgreedError& failure) {
  if (failure.kind() != ErrorKind::temporary && failure.kind() != ErrorKind::unavailable) throw failure;
  local_full_ = true;
  if (speaks()) log::warning(failure.what(), "; this checkpoint goes into the run directory at once");
}

void TrainingLoop::begin_drain() {
  if (!to_drain_ || drain_under_way()) return;
  draining_ = {*to_drain_, now()};
  to_drain_.reset();
  const auto saved = checkpoint::saved_locally(in_.active, *in_.local, draining_.step);
  in_.drains->begin({}, [saved, place = *in_.local, tensors = model::tensors(in_.trainer.program().plan.model), run = in_.allocation.run(),
                         options = save_options(), &allocation = in_.allocation](const comm::World& world, const checkpoint::LocalState&) {
    comm::agree_on(
        world, "holding the run directory", [&] { allocation.require_lock(); }, options.deadline);
    return checkpoint::drain(world, place, saved, tensors, run, options);
  });
}

void TrainingLoop::settle_drain() {
  const Seconds since = now();
  try {
    if (drain_under_way()) {
      const auto report = in_.drains->wait();
      journal::CheckpointRecord record;
      record.step = draining_.step;
      record.bytes = report.size.count;
      record.seconds = (now() - draining_.begun).value;
      record.pause_seconds = (now() - since).value;
      note_saved(record);
    }
  } catch (const comm::AgreedError& failure) {
    if (failure.kind() == ErrorKind::bad_input) {
      if (speaks()) log::warning(failure.what(), "; the next checkpoint takes its place");
      if (saved_ == draining_.step) saved_ = in_run_;
    } else if (failure.kind() == ErrorKind::temporary) {
      if (!to_drain_) to_drain_ = draining_.step;
      drain_retry_.failed(now());
      if (drain_retry_.failures() == 1 && speaks())
        log::warning(failure.what(), "; training continues, and the checkpoint of step ", *to_drain_,
                     " stays on the nodes' storage until there is room");
      return;
    } else {
      throw;
    }
  }
  begin_drain();
}

}  // namespace flotilla::session
