#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/journal/metrics.hpp"
#include "flotilla/monitor/active_run.hpp"
#include "flotilla/monitor/self_check.hpp"
#include "flotilla/simulate/forecast.hpp"

namespace flotilla::monitor {

class WindowRecorder;

/// Holds the steps of a run against their forecast, window by window, and names devices and links that have become slow, with hosts, stages
/// and cost, in the log and in the metrics.
class SpeedWatch {
 public:
  enum class Window {
    open,
    closed,
    tells  ///< something has been slow for a while, or is so no longer: planning again may be worth it; on the active ranks' first rank
  };

  /// `metrics`: of the active ranks' first rank, which alone judges; null on all others. `forecast`: with its timeline, there.
  SpeedWatch(ActiveRun, const simulate::Forecast&, journal::MetricsWriter* metrics);
  ~SpeedWatch();
  SpeedWatch(const SpeedWatch&) = delete;
  SpeedWatch& operator=(const SpeedWatch&) = delete;

  /// After step `step`, which took so long. `disturbed`: something else went on in this window (planning, making ready), so it says
  /// nothing. Collective over the active ranks, after every step: windows close on all ranks alike. Throws Error{communication} when the
  /// deadline passes.
  Window add(std::int64_t step, Seconds took, bool disturbed);
  /// On the active ranks' first rank.
  std::vector<Slowness> slow_now() const { return check_.slow_now(); }

 private:
  bool closes();
  bool judge(std::span<const RankWindow>);
  /// What is slow, with hosts and stages.
  std::string name_of(const Slowness&) const;
  std::string stages_of(Rank) const;
  journal::SlowRecord record_of(const Slowness&) const;
  void tell(const Slowness&);
  /// Which link of a slow group it is, by messages between its hosts. Collective.
  void look_at_links(int group);
  void tell_links(const Slowness& group, const std::vector<double>& trips);
  /// Of ranks of the active ranks, one on each of their hosts.
  std::vector<Rank> hosts_of(const std::vector<Rank>& members) const;

  ActiveRun at_;
  journal::MetricsWriter* metrics_;
  std::unique_ptr<WindowRecorder> recorder_;
  SelfCheck check_;               ///< the active ranks' rank 0
  std::optional<Slowness> look_;  ///< a group whose links are looked at after this window; rank 0
  int length_;                    ///< steps of the window that is being recorded
  int settling_;                  ///< steps yet to come that are not looked at
  std::int64_t step_ = 0;
};

}  // namespace flotilla::monitor
