#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/comm/last_words.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::comm {

/// What only the ranks of one incarnation know; a beat without it is not theirs (docs/security.md).
using Secret = std::array<std::uint8_t, 16>;

struct WatchOptions {
  Seconds interval{0.5};   ///< between heartbeats; the thread sleeps a tenth of it at a time
  Seconds deadline{10.0};  ///< a rank silent for longer is lost
  Secret secret{};         ///< the same on every rank
};

/// A rank wants the job to stop at the next step boundary.
struct StopRequest {
  Rank origin;
  std::string reason;   ///< "SIGTERM", "time limit in 120 s"
  bool urgent = false;  ///< whoever is to stop will be killed soon
  bool operator==(const StopRequest&) const = default;
};

/// Why the job cannot go on.
struct Trouble {
  enum class Kind { silent, failed };  ///< no heartbeat; or it said so itself
  Kind kind = Kind::silent;
  Rank rank;
  std::string host;
  Seconds silence;  ///< silent
  LastWords words;  ///< failed: the rank's own; silent: ExitCode::lost_peer and to_string() of this
};
/// One line: "rank 3 on n2 has been silent for 10 s", "rank 3 on n2 failed: ...".
std::string to_string(const Trouble&);

/// Notices a dead, stopped or unplugged peer within the deadline, and carries stop requests and last words. A thread with its own
/// communicator: every rank sends heartbeats to rank 0 and rank 0 to every rank; the first trouble that rank 0 learns of goes out to all
/// with the next of them.
class Watch {
 public:
  /// Called once, on the watch thread, with the first trouble this rank learns of. The main thread may be stuck for ever by then. May call
  /// fail_world(), must not call close().
  using OnTrouble = std::function<void(const Trouble&)>;

  /// Collective in the sense that every rank makes one; does not wait. One per World, which must outlive it.
  Watch(const World& world, WatchOptions options, OnTrouble on_trouble);
  /// Without close() (an exception is passing) it just stops, and the peers will notice the silence.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Becomes visible on every rank (this one too, if rank 0 answers) within about an interval. Later requests do not replace the first, but
  /// an urgent one makes it urgent. Any thread; not from a signal handler.
  void request_stop(const std::string& reason, bool urgent = false);
  /// The request that rank 0 heard first: the same on every rank that has one. Any thread.
  std::optional<StopRequest> stop_requested() const;
  /// Tells every rank that step `step` is to be given up (Trainer::give_up_when); the highest number counts. Any thread.
  void give_up(std::int64_t step);
  /// The highest number that this rank has heard; -1: none. Any thread, lock-free.
  std::int64_t given_up() const noexcept;
  /// Tells rank 0 with the next heartbeat how far this rank is, by the owner's count. Any thread.
  void reach(int place);
  /// Rank 0: how far each rank is, by rank, as last heard; 0 before. Any thread.
  std::vector<int> reached() const;
  /// First trouble this rank knows of. Any thread.
  std::optional<Trouble> trouble() const;
  /// Tells everybody why this rank is about to end the job, and returns when the word has gone out, or after `deadline`. Any thread; on the
  /// watch thread it returns at once.
  void announce_failure(const LastWords& words, Seconds deadline);
  /// Clean end: waits until every rank is here; nobody is missed meanwhile. Throws Error{communication} on trouble or after `deadline`. The
  /// watch is over either way.
  void close(Seconds deadline);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace flotilla::comm
