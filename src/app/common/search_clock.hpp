#pragma once
#include <string>

#include "app/common/live_line.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::app {

/// An eye on the clock while somebody searches: the time limit, and a line on a terminal where it takes longer than two seconds.
class SearchClock {
 public:
  /// `what`: "searching". `limit`: 0 is none.
  SearchClock(std::string what, Seconds limit);
  /// Asked between steps: whether the limit has passed.
  bool is_over();
  /// Whether is_over() ever said so.
  bool cut_off() const { return cut_off_; }
  Seconds elapsed() const;

 private:
  std::string what_;
  Seconds limit_, begin_, shown_;
  bool cut_off_ = false;
  LiveLine line_;
};

}  // namespace flotilla::app
