#include "flotilla/session/start_progress.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::session {
namespace {

constexpr Seconds first_word{10};  // twice as long before each further one
constexpr std::size_t most_named = 4;

}  // namespace

std::string in_words(StartPhase phase) {
  switch (phase) {
    case StartPhase::opening: return "reading data and checkpoints";
    case StartPhase::measuring: return "measuring devices and links";
    case StartPhase::planning: return "planning";
    case StartPhase::connecting: return "connecting the ranks and taking memory";
    case StartPhase::loading: return "loading the training state";
    case StartPhase::first_step: return "the first step";
    case StartPhase::running: return "training";
  }
  return {};
}

std::string what_start_waits_for(std::span<const int> phases, const std::function<std::string(Rank)>& name) {
  const int last = *std::ranges::min_element(phases);
  const auto behind = std::ranges::count(phases, last);
  const auto phase = in_words(static_cast<StartPhase>(last));
  if (behind == std::ssize(phases)) return phase;
  std::string names;
  std::size_t named = 0;
  for (std::size_t r = 0; r < phases.size() && named < most_named; ++r)
    if (phases[r] == last) names += text(named++ == 0 ? "" : ", ", name(Rank{static_cast<int>(r)}));
  const auto more = static_cast<std::size_t>(behind) - named;
  return text(phase, " on ", names, more > 0 ? text(" and ", more, " more") : std::string{});
}

StartProgress::StartProgress(const comm::World& world, comm::Watch& watch) : world_{world}, watch_{watch}, began_{now()}, since_{began_} {
  if (world.rank() == Rank{0}) narrator_ = std::jthread{[this](const std::stop_token& stop) { narrate(stop); }};
}

void StartProgress::reach(StartPhase phase) {
  if (phase <= phase_) return;
  const Seconds time = now();
  took_.at(static_cast<std::size_t>(phase_)) = time - since_;
  phase_ = phase;
  since_ = time;
  watch_.reach(static_cast<int>(phase));
  if (phase == StartPhase::running) narrator_.request_stop();
}

void StartProgress::narrate(const std::stop_token& stop) const {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock{mutex};
  for (Seconds next = first_word;; next = 2.0 * next) {
    const auto pause = std::chrono::duration<double>{std::max((began_ + next - now()).value, 0.0)};
    ended.wait_for(lock, stop, pause, [] { return false; });
    if (stop.stop_requested()) return;
    log::info("started ", now() - began_,
              " ago, waiting for: ", what_start_waits_for(watch_.reached(), [&](Rank rank) { return world_.name(rank); }));
  }
}

}  // namespace flotilla::session
