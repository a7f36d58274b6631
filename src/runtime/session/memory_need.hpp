#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"

/// Whether the next plan can be made ready beside the one at work: a function of what all ranks say, so that all decide alike.
namespace flotilla::session {

/// Of one rank. Plain, so that ranks can exchange it.
struct MemoryNeed {
  std::int64_t peak = 0;   ///< bytes while both plans are held
  std::int64_t limit = 0;  ///< bytes that the rank may use; 0: not known
  bool abandoned = false;  ///< the run is about to end
};

/// Of two memories of a rank, the need that is nearer to its limit, or further over it; one without a limit counts last.
MemoryNeed tighter(const MemoryNeed&, const MemoryNeed&);

/// `given`: by --device.memory, `device`: by the profile; 0: not known. The smaller one counts.
Bytes memory_limit(Bytes given, Bytes device);

struct Readiness {
  enum class Verdict {
    go_on,  ///< both plans fit side by side
    save,   ///< they do not: the state is saved under the new plan, for a restart
    refuse  ///< the plan at work goes on
  };
  Verdict verdict = Verdict::go_on;
  std::string why;
};
/// `plan_is_given`: a restart would take --plan again, and not what was saved. `name` is of a rank of the world.
Readiness readiness_of(std::span<const MemoryNeed> by_rank, bool plan_is_given, const std::function<std::string(Rank)>& name);

/// Why copies of the state for asynchronous saves do not fit beside the plan, which the needs count in; empty where they do.
std::string no_room_for_copies(std::span<const MemoryNeed> by_rank, const std::function<std::string(Rank)>& name);

}  // namespace flotilla::session
