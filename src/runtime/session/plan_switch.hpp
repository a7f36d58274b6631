#pragma once
#include <optional>

#include "flotilla/base/error.hpp"
#include "flotilla/session/segment_result.hpp"

namespace flotilla::session {

/// How far the run is with a change of plan. The active ranks' first rank learns what is wanted; its next step tells all; they make it
/// ready while steps go on; when that is done a step tells all again, and they leave for it together, or the plan is refused and everything
/// is as before. Every rank of the active ranks has one, and they advance alike.
class PlanSwitch {
 public:
  enum class Advance { prepare, take };

  /// First rank: a wish, one at a time.
  void want(NextPlan next) {
    FLOTILLA_ASSERT(!next_ && !preparing_, "two plans are wanted at once");
    next_ = std::move(next);
  }
  const std::optional<NextPlan>& wanted() const { return next_; }
  bool preparing() const { return preparing_; }
  /// First rank: whether the step that begins is to tell the active ranks. `ready`: what is being prepared is, on this rank.
  bool tells(bool ready) const { return next_ && (!preparing_ || ready); }
  /// Every rank, after a step that told.
  Advance advance() {
    if (preparing_) return Advance::take;
    preparing_ = true;
    return Advance::prepare;
  }
  /// Every rank: the plan cannot be taken up.
  void refuse() {
    preparing_ = false;
    next_.reset();
  }

 private:
  std::optional<NextPlan> next_;
  bool preparing_ = false;
};

}  // namespace flotilla::session
