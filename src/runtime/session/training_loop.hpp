#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint_interval.hpp"
#include "flotilla/checkpoint/background_save.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/checkpoint/local.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/journal/prometheus.hpp"
#include "flotilla/journal/tensorboard.hpp"
#include "flotilla/monitor/feedback.hpp"
#include "flotilla/monitor/forecast_check.hpp"
#include "flotilla/monitor/speed_watch.hpp"
#include "flotilla/session/incarnation.hpp"
#include "flotilla/session/incarnation_totals.hpp"
#include "flotilla/session/run_config.hpp"
#include "flotilla/session/segment_result.hpp"
#include "flotilla/session/training_data.hpp"
#include "flotilla/train/trainer.hpp"
#include "plan_ahead.hpp"
#include "plan_search.hpp"
#include "plan_switch.hpp"
#include "recent_steps.hpp"
#include "save_retry.hpp"
#include "save_schedule.hpp"
#include "step_guard.hpp"
#include "time_left.hpp"

namespace flotilla::session {

/// What the loop needs beside the trainer; all of it decided before the first step.
struct LoopInput {
  const RunConfig& config;
  const TrainingData& data;
  Incarnation& allocation;
  const comm::World& active;
  train::Trainer& trainer;
  checkpoint::Manifest manifest;  ///< what every checkpoint of this incarnation says; step, sequences and time are filled in
  std::int64_t first_step = 0;    ///< steps already done
  const std::vector<Phase>& phases;
  std::size_t end_phase = 0;           ///< the first one behind those that the plan serves; phases.size(): the run ends
  std::optional<NextPlan> next_phase;  ///< its plan
  double peak_flops = 0;               ///< of all devices of the active ranks together, FLOP/s
  std::string plan_summary;
  std::string changed;                                     ///< options that alter the run, since the checkpoint that it goes on from
  simulate::Forecast forecast;                             ///< of the plan, with its timeline; the active ranks' rank 0 has it
  std::optional<Seconds> ends;                             ///< of the job's time, on the clock of flotilla::now()
  std::optional<PlanChange> change;                        ///< the run goes on after this
  std::optional<Seconds> longest_save;                     ///< that this run has measured; empty: its metrics say
  IncarnationTotals* totals = nullptr;                     ///< what the loop does is added to it, where it writes the metrics
  std::vector<Rank> active_ranks;                          ///< of the job, by rank of the active ranks
  cluster::Profile profile;                                ///< of the job's devices
  std::unique_ptr<checkpoint::BackgroundSave> background;  ///< empty: saves are synchronous
  std::optional<checkpoint::LocalPlace> local;             ///< where checkpoints go first; empty: into the run directory
  std::unique_ptr<checkpoint::BackgroundSave> drains;      ///< from there into the run directory
  /// Asked before each step, on the active ranks' rank 0.
  std::function<std::optional<NextPlan>()> next_plan;
  /// Asked when a device or a link has been slow for a while, or is so no longer; empty: nobody plans again.
  Replanner plan_again;
  std::filesystem::path corrected_profile;  ///< where a profile goes that this run's iterations have corrected
  /// Of an iteration of the plan, by another profile; on the active ranks' first rank.
  std::function<Seconds(const cluster::Profile&)> forecast_by;
  /// The next plan is made with this profile; on the active ranks' first rank.
  std::function<void(cluster::Profile)> adopt_profile;
  PlanAhead* ahead = nullptr;
  /// Begins to make a plan ready, on every rank of the active ranks; the first one gives the plan.
  std::function<void(const std::optional<NextPlan>&)> make_ready;
};

/// Steps, evaluations, checkpoints and the lines about them, until the last step or a stop. Collective over the active ranks.
class TrainingLoop {
 public:
  explicit TrainingLoop(LoopInput);
  /// With SegmentResult::next where another plan is to go on, which is ready: nothing has been saved for that, and nobody has left.
  SegmentResult run();
  /// Of the active ranks' first rank.
  Seconds longest_save() const { return time_left_.save; }
  /// For the record: what the active ranks works on and where its plan comes from. Once, before run().
  void note_devices(std::vector<journal::InventoryEntry>, const std::string& origin);
  /// After that: saves for a restart under another plan.
  SegmentResult hand_over(const plan::Plan&, const std::string& why);

 private:
  void begin_metrics();
  void tell(const PlanChange&);
  /// After a step: that was the first of this incarnation.
  void note_started();
  SegmentResult run_steps();
  /// Steps done when those under this plan are over.
  std::int64_t last_step() const;
  const Phase& phase() const { return in_.phases[phase_after(in_.phases, std::max<std::int64_t>(0, done_ - 1))]; }
  /// The phase that begins, if one does.
  void note_phase();
  /// Makes the plan of the next phase ready and leaves for it, or saves where that cannot be.
  SegmentResult leave_phase();
  StepGuard::Surroundings surroundings();
  train::StepRequests step_requests();
  /// What the planner or somebody else wants next; on the active ranks' first rank.
  void look_for_next_plan();
  /// All ranks of the active ranks know of another plan: makes it ready while steps go on; then, when it is ready, leaves for it.
  std::optional<SegmentResult> advance_change();
  bool notes_stop();
  /// The step in hand was given up: saves the state of the one before.
  SegmentResult leave_step();
  /// The first rank's reason that has one. Collective.
  std::string why_stopped() const;
  train::StepResult one_step();
  void report(const train::StepResult&, Seconds took);
  void check_forecast(Seconds took);
  void check_speed(Seconds took);
  /// What the first iterations prove of the profile: says it, writes it, and plans again where that is wanted.
  std::string correct_profile(const monitor::Proof&);
  /// Plans again beside the steps, with what is slow now.
  void search_again();
  void tell(const monitor::ForecastComparison&, const std::string& why);
  void require_finite(const train::StepResult&) const;
  /// What a step that is not finite has to do with fp16; empty where it has not.
  std::string at_scale_floor(const train::StepResult&) const;
  void evaluate_if_due();
  /// Of each source, and their mean by weight. Collective.
  journal::EvaluationRecord evaluate();
  /// Of a mixture: what has been drawn from its sources.
  void note_data();
  /// Trains on where the run directory is full or away, and tries again later. An asynchronous save first waits for the one before it.
  void save();
  bool save_under_way() const { return in_.background && in_.background->under_way(); }
  /// Before parameters change: the copy of an asynchronous save is whole.
  void complete_copy();
  /// What the first rank found over or due before this step; whether a save is due. Collective.
  bool attend();
  /// Waits for the asynchronous save under way, if one is; false where it failed, and is tried again later. Collective.
  bool settle_save();
  /// Waits until nothing is written any more. Collective.
  void settle();
  /// The same where nothing follows: waits for room while that is of use, then throws the AgreedError.
  void save_for_the_end(const checkpoint::Manifest&);
  /// Before the next try, the same on every rank; nothing where none would end in time. Collective.
  std::optional<Seconds> pause_for_room(RoomWait&) const;
  /// Why there was no room; nothing when `work` made a checkpoint of `step` or began to. Throws what cannot be tried again. Collective.
  std::optional<comm::AgreedError> attempt(const std::function<void()>& work);
  /// Into the run directory.
  void save_now(checkpoint::Manifest);
  /// On the nodes' storage; false where that is full or away, which is warned of. Collective.
  bool save_locally_now(checkpoint::Manifest);
  /// The local checkpoint of a step is committed; the one before it is of no more use unless it is being drained.
  void note_local(std::int64_t step, const checkpoint::SaveReport&, std::optional<Seconds> pause);
  void warn_of_local(const comm::AgreedError&);
  bool drain_under_way() const { return in_.drains && in_.drains->under_way(); }
  /// Drains the newest local checkpoint, where none is being drained.
  void begin_drain();
  /// Waits for the drain under way, if one is. Collective.
  void settle_drain();
  void begin_save(checkpoint::Manifest);
  /// What the checkpoint of this step says. Collective: the run directory must still be ours.
  checkpoint::Manifest completed(checkpoint::Manifest) const;
  checkpoint::SaveOptions save_options() const;
  void note_saved(journal::CheckpointRecord);
  std::string room_in_words() const;
  void tell_room(Bytes of_a_checkpoint) const;
  /// Where it follows from failures: the time to the next checkpoint, and what a user is told of it. On the active ranks' rank 0.
  void begin_interval();
  void choose_interval(const SaveCost&);
  void warn_of(const comm::AgreedError&) const;
  /// With what is left of the save under way.
  TimeLeft time_left() const;
  /// The longest save that earlier incarnations measured.
  Seconds longest_save_so_far() const;
  bool speaks() const { return metrics_.has_value(); }
  SegmentResult ended(ExitCode, std::string reason);
  SegmentResult finished();

  LoopInput in_;
  SaveSchedule schedule_;
  std::optional<NodeFailures> failures_;  ///< the active ranks' rank 0, where the interval follows from them
  Seconds told_interval_;
  const Seconds began_;
  const std::int64_t updates_before_;  ///< of the weights
  std::int64_t done_;                  ///< steps
  std::int64_t skipped_ = 0;           ///< steps in a row that made no update, up to the last one done, but for empty ones
  std::int64_t empty_ = 0;             ///< steps in which no token counted
  std::int64_t saved_;                 ///< step of the last checkpoint that holds this state; 0: none is needed, a new start is the same
  std::int64_t in_run_;                ///< the same in the run directory
  Seconds last_save_;
  bool told_room_ = false;
  SaveRetry retry_;
  struct {
    std::int64_t step = 0;
    Seconds begun;
    Seconds pause;  ///< training stood still for it so far
    bool local = false;
  } writing_;  ///< the asynchronous save under way
  struct {
    std::int64_t step = 0;
    Seconds begun;
  } draining_;                            ///< the local checkpoint on its way into the run directory
  std::optional<std::int64_t> to_drain_;  ///< the newest local one, where it is not on its way
  SaveRetry drain_retry_;
  bool local_full_ = false;  ///< the last local save failed
  struct {
    bool saved = false, drained = false, due = false;
  } found_;  ///< before the step in hand, on the active ranks' first rank
  std::string stop_reason_;
  PlanSwitch switch_;
  bool disturbed_ = false;                         ///< planning or preparing went on in this window; rank 0
  std::optional<journal::MetricsWriter> metrics_;  ///< the active ranks' rank 0
  std::optional<journal::PrometheusFile> prometheus_;
  std::optional<journal::TensorboardFile> tensorboard_;
  RecentSteps recent_;
  double flops_per_step_ = 0;
  monitor::ForecastCheck check_;  ///< the active ranks' rank 0
  TimeLeft time_left_;            ///< the active ranks' rank 0 decides by it
  StepGuard guard_;
  std::optional<monitor::SpeedWatch> speed_;
  std::optional<monitor::Feedback> feedback_;
  PlanSearch search_;  ///< rank 0 of the active ranks
};

}  // namespace flotilla::session
