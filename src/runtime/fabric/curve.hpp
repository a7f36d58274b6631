#pragma once
#include <optional>
#include <vector>

#include "flotilla/base/time_shares.hpp"

namespace flotilla::fabric {

/// Which sizes of messages are measured, and with how long samples: those first that tell most of a curve, and none that would overdraw the
/// time. The two first are measured whatever they take: there is no shorter answer.
class Curve {
 public:
  struct Step {
    Bytes size;
    Seconds time{};   ///< for all of it
    Seconds slice{};  ///< of a sample, of four in each series
  };

  /// Each size takes so many series of samples.
  Curve(std::vector<Bytes> sizes, int series, Seconds end, TimeShares::Clock clock = now);
  /// Nothing: no size that is left fits the time.
  std::optional<Step> next();
  /// How long a message of the last step takes.
  void took(Seconds message);

 private:
  Seconds expected(Bytes size) const;

  std::vector<Bytes> waiting_;
  int series_;
  Seconds end_;
  TimeShares::Clock clock_;
  std::size_t steps_ = 0;
  Bytes last_, largest_;
  Seconds latency_{}, longest_{};  ///< of a message of the smallest and of the largest size so far
};

/// The ends, then the middles of what lies between those that are there: each halves the gap in which nothing is known.
std::vector<Bytes> telling_first(const std::vector<Bytes>& ascending);

/// Time of the next of so many links, of which the first `musts` are measured whatever they take: an equal part of what is left, for as
/// many as it suffices for. 0: leave it out.
Seconds time_of_link(Seconds left, int links, int musts);

}  // namespace flotilla::fabric
