#pragma once
// Private: what the watch sends, and the line to one peer.
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "flotilla/comm/watch.hpp"

namespace flotilla::comm {

/// One heartbeat: all that its sender knows. Goes over the wire as it is.
struct Beat {
  Secret secret{};
  std::int32_t stop_origin = -1;    ///< -1: no stop request
  std::int32_t trouble_rank = -1;   ///< -1: no trouble
  std::int32_t trouble_code = 0;    ///< exit code
  std::uint8_t trouble_silent = 0;  ///< else it said so itself
  std::uint8_t stop_urgent = 0;
  std::uint8_t leaving = 0;  ///< to rank 0: my last beat unless rank 0 fails; from rank 0: everybody has left, the end
  std::int32_t reached = 0;
  std::int64_t given_up_step = -1;  ///< -1: none
  double silence_seconds = 0;
  std::array<char, 200> stop_reason{};
  std::array<char, 800> trouble_line{};

  void set(const StopRequest&);
  void set(const Trouble&);
  std::optional<StopRequest> stop() const;
  std::optional<Trouble> trouble(const World&) const;
};

/// Beats to and from one peer.
class PeerLine {
 public:
  PeerLine(const World& world, Rank peer, const Secret& secret, Seconds time);

  Rank peer() const noexcept { return peer_; }
  Seconds heard() const noexcept { return heard_; }
  void set_heard(Seconds time) noexcept { heard_ = time; }
  /// No more beats will come.
  void hang_up() noexcept { listening_ = false; }
  bool listening() const noexcept { return listening_; }
  /// MPI refuses this line: nothing more is received or sent.
  void give_up() noexcept {
    broken_ = true;
    listening_ = due_ = false;
  }
  /// The next beat that has come, if any; one with another secret has not. Throws Error{communication}.
  std::optional<Beat> receive(Seconds time);
  /// A beat is due on this line: the next send() is to go out.
  void set_due() noexcept { due_ = !broken_; }
  bool due() const noexcept { return due_; }
  /// Sends unless the last beat is still on its way, in which case one stays due; true when it did.
  bool send(const Beat&);
  /// True when the last beat is out (or never will be). Throws Error{communication}.
  bool sent() { return broken_ || out_.test(); }

 private:
  const World* world_;
  Rank peer_;
  Secret secret_;
  Seconds heard_;
  bool listening_ = true, due_ = false, broken_ = false;
  Beat incoming_, outgoing_;
  mpi::Request in_, out_;
};

}  // namespace flotilla::comm
