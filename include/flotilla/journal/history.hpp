#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/exit_code.hpp"
#include "flotilla/journal/metrics.hpp"

namespace flotilla::journal {

/// One start of a run, as its run directory tells it. Times are seconds since 1970; 0 where nothing says.
struct IncarnationHistory {
  int number = 0;
  std::string host, job;              ///< of rank 0; the batch system's id, "" without one
  double launched = 0;                ///< when rank 0's process began
  double first_step_done = 0;         ///< when its first step was complete
  double ended = 0;                   ///< its last word: stop, outcome or last line
  bool running = false;               ///< it holds the run directory still
  std::optional<ExitCode> exit_code;  ///< absent: it was killed before it could speak, or runs
  std::string reason;
  std::string plan, origin;  ///< summary; where the plan came from
  std::string changed;       ///< options that alter the run, since the checkpoint that it went on from
  std::vector<InventoryEntry> devices;
  std::vector<CorrectionRecord> corrections;  ///< of the profile, by its first iterations under each plan
  std::vector<PlanRecord> plan_changes;       ///< while it ran, those that were refused too
  int ranks = 0;
  std::int64_t first_step = 0;  ///< steps complete when it began
  std::int64_t last_step = 0;   ///< when it ended
  std::int64_t lost_steps = 0;  ///< of its steps, done again by later incarnations
  double lost_seconds = 0;      ///< that those took
  /// Of its steps, those after the newest checkpoint, which the next start does again; 0 while it runs.
  std::int64_t unsaved_steps = 0;
  std::optional<double> first_loss, last_loss;
  std::int64_t checkpoints = 0;
  double checkpoint_seconds = 0;

  std::int64_t steps() const { return last_step - first_step; }
  /// From launch to the end of the first step; absent where there was none.
  std::optional<double> seconds_to_first_step() const;
  double seconds() const { return ended > launched && launched > 0 ? ended - launched : 0; }
  int hosts() const;
};

/// Every incarnation that left a trace, in order, without starts that were refused. Takes no lock. Throws Error{bad_input} where there is
/// no run, or what a file says cannot be.
std::vector<IncarnationHistory> read_history(const std::filesystem::path& run);

/// A phase of a run, in the iterations that count in the end.
struct PhaseHistory {
  std::string phase;
  int length = 0, global_batch = 0;
  std::int64_t first_step = 0, last_step = 0;  ///< complete when it began and when it ended, or so far
  double seconds = 0;                          ///< in these iterations
  std::optional<double> first_loss, last_loss;
};
/// In their order; empty for a run without phases.
std::vector<PhaseHistory> phases_in(const Metrics&);

/// A run's losses on one source of a mixture, at first and at last.
struct SourceHistory {
  std::string source;
  std::int64_t first_step = 0, last_step = 0;  ///< where there are any
  double first_loss = 0, last_loss = 0;
};
/// Of training and of held-out data: every source that occurs, in the order in which they do. The records are in that of their steps.
std::vector<SourceHistory> sources_in(const std::vector<StepRecord>&);
std::vector<SourceHistory> sources_in(const std::vector<EvaluationRecord>&);

/// The newest checkpoint, where that is on the nodes' own storage and nobody has drained it into the run directory.
std::optional<CheckpointRecord> undrained(const Metrics&);
/// "step 120 is on n1, n2 only, in /local/flotilla-0123456789abcdef".
std::string undrained_in_words(const CheckpointRecord&);

/// The newest step that the journal says was saved and that counts still, whatever became of its checkpoint; from metrics.jsonl, where that
/// is missing from the outcomes. 0: none. Throws Error as read_metrics() does.
std::int64_t last_saved_step(const std::filesystem::path& run);

}  // namespace flotilla::journal
