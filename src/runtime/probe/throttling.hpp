#pragma once
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::probe {

/// Processor time of the calling thread.
Seconds thread_time();

/// What a quota of `cpu_limit` CPUs (0: none) makes of work that lasts, in so many threads: how many times as long it takes; at least 1.
double least_throttling(int threads, double cpu_limit);

/// How much longer than its processor time the work of a crowded rank takes: time by the clock over processor time, of all its visits
/// together. A quota lets a thread run in bursts; a visit that holds two of them is off by half a burst at either end, all together are
/// not.
class ThrottlingFactor {
 public:
  /// `least`: what a quota makes of work that lasts, whatever short visits saw of it; at least 1.
  explicit ThrottlingFactor(double least = 1) : least_{least} {}

  void add(std::size_t round, Seconds wall, Seconds busy);
  /// Whether a round is believed: others took not much of it, as far as a quota tells what they took, or took as much of all rounds.
  bool counts(std::size_t round) const;
  /// Of the rounds that count.
  double all() const;
  /// Of the visits of that round alone, of which there is one at least.
  double of_round(std::size_t round) const { return of(rounds_.at(round)); }
  double least() const { return least_; }
  /// Share of the time that is not the quota's doing, where that is far more than the process's own other threads and like neighbours take;
  /// 0 where it is not, and where there is no quota to compare with.
  double taken_by_others() const;

 private:
  struct ThrottlingSum {
    Seconds wall, busy;
  };
  double of(const ThrottlingSum&) const;
  bool undisturbed(const ThrottlingSum&) const;

  double least_;
  std::vector<ThrottlingSum> rounds_;
};

}  // namespace flotilla::probe
