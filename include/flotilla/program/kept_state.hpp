#pragma once
#include <memory>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/rank_locations.hpp"

/// What any rank of one plan could keep of its training state if it became any rank of another plan.
namespace flotilla::program {

/// With k(b) the rank of `from` that rank b of `to` is on the same device as, migrate() moves the sum over b of wanted(b) - kept(k(b), b),
/// whatever the other ranks are. Both plans are bound, each to ranks of its own. A plan that shares its optimizer out is lowered once; what
/// ranks hold is worked out when they are first asked for. Models must be equal but for their names. Where precisions differ it counts as
/// if who holds a parameter could send it in the other one. Threads need one each.
class KeptState {
 public:
  KeptState(const plan::Plan& from, const plan::Plan& to, const RankLocations& from_placement = {}, const RankLocations& to_placement = {});
  ~KeptState();
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

  /// What the rank has to hold.
  Bytes wanted(Rank to) const;
  /// What of that a device holds already which was this rank.
  Bytes kept(Rank from, Rank to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::program
