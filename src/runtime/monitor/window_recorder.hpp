#pragma once
#include <map>
#include <span>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/monitor/self_check.hpp"
#include "flotilla/train/trainer.hpp"
#include "stall_clock.hpp"
#include "traffic_forecast.hpp"

namespace flotilla::monitor {

/// Makes this rank's window of what the trainer recorded of its steps.
class WindowRecorder {
 public:
  /// `active_ranks`: the job's ranks, which the profile's links are between; `me`: of the active ranks. The program outlives the recorder.
  WindowRecorder(const program::Program&, const cluster::Profile&, const std::vector<Rank>& active_ranks, Rank me);

  /// After a step: when this rank's instructions ran (train::Trainer::timeline()).
  void add(std::span<const train::InstructionSpan> timeline, Seconds took);
  int steps() const { return steps_; }
  /// Of these steps together.
  Seconds time() const { return {seconds_}; }
  /// Of the steps since the last one.
  RankWindow take();

 private:
  struct Traffic {
    double measured = 0, forecast = 0;
  };
  void add_sends();
  void report_link(RankWindow&) const;
  void report_groups(RankWindow&) const;

  const program::RankClass& class_;
  std::vector<InstructionTraffic> instructions_;  ///< by instruction of this rank's class
  StallClock stalls_;
  Seconds stalled_;  ///< when the window began
  int steps_ = 0;
  double seconds_ = 0, busy_ = 0;                                ///< of these steps together
  std::map<int, Traffic> peers_, groups_;                        ///< traffic by peer, by group
  std::map<int, std::vector<std::pair<double, double>>> sends_;  ///< of one step, by peer: from when to when
};

}  // namespace flotilla::monitor
