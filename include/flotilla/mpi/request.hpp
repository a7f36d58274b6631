#pragma once
#include <array>
#include <cstddef>
#include <utility>

#include "flotilla/base/units.hpp"

namespace flotilla::mpi {

/// A message or collective in flight. Holds no heap memory, so it may be made and finished in every step. The buffer given to the
/// operation must live until test() is true. Move-only; one thread at a time.
class Request {
 public:
  Request() noexcept = default;
  Request(Request&& other) noexcept { take(other); }
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      cancel();
      take(other);
    }
    return *this;
  }
  /// Cancels what is still in flight, see cancel().
  ~Request() { cancel(); }

  bool active() const noexcept { return kind_ != Kind::none; }
  /// Makes progress; true once finished (and for a request that holds nothing). Throws Error{communication}.
  bool test();
  /// Bytes of the message that the last finished receive brought.
  Bytes received() const noexcept { return received_; }
  /// Gives up. A receive is withdrawn and its buffer free afterwards, unless its peer stops in the middle of the message (noticed after a
  /// second). A send or collective cannot be withdrawn: MPI may go on using its buffers until the process ends, so this belongs on the
  /// way out of a failed run.
  void cancel() noexcept;

 private:
  friend class Communicator;
  enum class Kind : unsigned char { none, send, receive, collective };
  Request(Kind kind, const void* raw) noexcept;
  void take(Request& other) noexcept {
    raw_ = other.raw_;
    received_ = other.received_;
    kind_ = std::exchange(other.kind_, Kind::none);
  }

  alignas(8) std::array<std::byte, 8> raw_{};  // an MPI_Request; mpi.h stays in this room
  Bytes received_;
  Kind kind_ = Kind::none;
};

/// Polls until `request` is finished. Throws Error{communication}, naming `what`, when `deadline` (from now) passes; the request is then
/// still in flight.
void wait(Request& request, Seconds deadline, const char* what);

}  // namespace flotilla::mpi
