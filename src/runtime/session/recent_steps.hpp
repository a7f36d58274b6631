#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::session {

/// How long the last steps took.
class RecentSteps {
 public:
  static constexpr std::size_t most = 32;

  void add(Seconds took) {
    if (seconds_.size() < most)
      seconds_.push_back(took.value);
    else
      seconds_[next_] = took.value;
    next_ = (next_ + 1) % most;
  }
  /// 0 before the first.
  Seconds longest() const { return {seconds_.empty() ? 0 : *std::ranges::max_element(seconds_)}; }
  /// In no order.
  std::span<const double> seconds() const { return seconds_; }

 private:
  std::vector<double> seconds_;
  std::size_t next_ = 0;
};

}  // namespace flotilla::session
