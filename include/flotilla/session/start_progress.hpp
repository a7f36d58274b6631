#pragma once
#include <array>
#include <functional>
#include <span>
#include <string>
#include <thread>

#include "flotilla/base/units.hpp"
#include "flotilla/comm/watch.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::session {

/// On the way to the first step, in order.
enum class StartPhase : int { opening, measuring, planning, connecting, loading, first_step, running };
inline constexpr std::size_t start_phase_count = 6;  ///< before running
/// "measuring devices and links", ...
std::string in_words(StartPhase);

/// What a start waits for: the phase of the ranks that are furthest behind, and which they are where not all are there. `phases`: by rank;
/// `name`: of a rank.
std::string what_start_waits_for(std::span<const int> phases, const std::function<std::string(Rank)>& name);

/// How far this rank is on the way to the first step. While that takes long, rank 0 says after 10 s, 20 s, 40 s, ... which phase and which
/// ranks are waited for: each rank's heartbeats carry its phase.
class StartProgress {
 public:
  /// World and watch outlive it. Local.
  StartProgress(const comm::World&, comm::Watch&);

  /// This rank is in a later phase now. On the main thread.
  void reach(StartPhase);
  /// Devices, links and plan were good for the job; what follows is training.
  bool accepted() const { return phase_ >= StartPhase::loading; }
  bool over() const { return phase_ == StartPhase::running; }
  /// How long each phase has taken on this rank; 0 for those that are not over or were passed over. On the main thread.
  const std::array<Seconds, start_phase_count>& took() const { return took_; }

 private:
  void narrate(const std::stop_token&) const;

  const comm::World& world_;
  comm::Watch& watch_;
  const Seconds began_;
  StartPhase phase_ = StartPhase::opening;
  Seconds since_;
  std::array<Seconds, start_phase_count> took_{};
  std::jthread narrator_;  ///< rank 0
};

}  // namespace flotilla::session
