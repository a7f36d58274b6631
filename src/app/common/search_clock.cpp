#include "app/common/search_clock.hpp"

#include <utility>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds quiet_for{2}, shown_every{0.2};

}  // namespace

SearchClock::SearchClock(std::string what, Seconds limit)
    : what_{std::move(what)}, limit_{limit}, begin_{now()}, shown_{begin_ + quiet_for} {}

Seconds SearchClock::elapsed() const { return now() - begin_; }

bool SearchClock::is_over() {
  const Seconds time = now();
  if (time >= shown_) {
    line_.show(text(what_, ": ", time - begin_, limit_.value > 0 ? text(" of ", limit_, " at most") : ""));
    shown_ = time + shown_every;
  }
  if (limit_.value > 0 && time - begin_ >= limit_) cut_off_ = true;
  return cut_off_;
}

}  // namespace flotilla::app
