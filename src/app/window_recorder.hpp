#pragma once
#include <map>
#include <memory>
#include <vector>

#include "app/self_check.hpp"
#include "app/stall_clock.hpp"
#include "app/traffic_forecast.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla::app {

/// Makes this rank's window of what the trainer recorded of its steps.
class WindowRecorder {
 public:
  WindowRecorder() = default;
  /// `crew_ranks`: the job's ranks, which the profile's links are between.
  WindowRecorder(const train::Trainer&, const cluster::Profile&, const std::vector<Rank>& crew_ranks, Rank me);

  /// After a step.
  void add(const train::Trainer&, Seconds took);
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

  Rank me_;
  std::vector<SiteTraffic> sites_;  ///< by site of this rank's class
  std::unique_ptr<StallClock> stalls_;
  Seconds stalled_;  ///< when the window began
  int steps_ = 0;
  double seconds_ = 0, busy_ = 0;                                ///< of these steps together
  std::map<int, Traffic> peers_, groups_;                        ///< traffic by peer, by group
  std::map<int, std::vector<std::pair<double, double>>> sends_;  ///< of one step, by peer: from when to when
};

}  // namespace flotilla::app
