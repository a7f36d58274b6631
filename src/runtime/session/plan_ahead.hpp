#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/program/migration.hpp"
#include "flotilla/session/active_plan.hpp"
#include "flotilla/session/segment_result.hpp"

namespace flotilla::session {

/// What came of making a plan ready; the same on every rank but for the rank's own part of it.
struct ReadyPlan {
  NextPlan next;
  ActivePlan work;  ///< formed and proved beside the one at work; its state is not filled
  program::Migration migration;
  std::string refused;    ///< why it cannot be taken up; the rest is empty then
  std::string too_large;  ///< why the plans do not fit side by side; `work` is empty then
};

/// Makes the next plan ready while the one at work goes on: lowers and forecasts it, compares memory, takes the arena, forms the active
/// ranks and proves its groups. On every rank of the job a thread does this, over channels of its own, so the steps wait for nothing of it.
/// One plan at a time. docs/design/replanning.md.
class PlanAhead {
 public:
  /// Collective over the job's ranks.
  PlanAhead(const comm::World& all, Seconds deadline);
  /// Without wait() (an exception is passing) the thread is left to itself: the job is about to end.
  ~PlanAhead();
  PlanAhead(const PlanAhead&) = delete;
  PlanAhead& operator=(const PlanAhead&) = delete;

  /// Begins on this rank; every rank of the job is to call it. `next`: on `speaker`, the first rank of the active ranks at work.
  /// What `place` refers to outlives the thread; `work` is only read here.
  void begin(const RunContext& place, const ActivePlan& work, Rank speaker, const std::optional<NextPlan>& next);
  bool under_way() const { return thread_ != nullptr; }
  /// Begun, and ended on this rank; on the others it is about to. Cheap.
  bool over() const noexcept;
  /// The run is about to end: stops where the ranks look at each other next.
  void abandon() noexcept;
  /// Until it is over; nothing where none is under way. Throws what no agreement of the ranks covers: a peer is lost.
  const ReadyPlan* wait();
  /// The same, handed over; the next may begin.
  ReadyPlan take();
  /// Waits, and lets go of what was made ready.
  void drop();

  /// Ranks without work learn from the active ranks' first one that a plan is to be made ready.
  class Invitation {
   public:
    Invitation(const PlanAhead&, Rank speaker);
    /// Once true, when it has come.
    bool came();

   private:
    std::byte word_{};
    mpi::Request request_;
  };
  /// To those without work, by the active ranks' first rank, before begin().
  void invite(const std::vector<Rank>& active) const;

 private:
  class Thread;
  comm::World world_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace flotilla::session
