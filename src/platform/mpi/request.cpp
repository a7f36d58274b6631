#include "flotilla/mpi/request.hpp"

#include <mpi.h>

#include <atomic>
#include <cstring>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "flotilla/mpi/session.hpp"
#include "mpi_try.hpp"
#include "native.hpp"

namespace flotilla::mpi {

std::atomic<bool> collective_abandoned{false};

namespace {

constexpr Seconds patience_with_cancel{1.0};

template <class Raw>
MPI_Request load(const Raw& raw) noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  std::memcpy(&request, raw.data(), sizeof request);
  return request;
}

}  // namespace

Request::Request(Kind kind, const void* raw) noexcept : kind_{kind} {
  static_assert(sizeof(MPI_Request) <= sizeof raw_);
  std::memcpy(raw_.data(), raw, sizeof(MPI_Request));
}

bool Request::test() {
  if (kind_ == Kind::none) return true;
  MPI_Request raw = load(raw_);
  MPI_Status status;
  int finished = 0;
  const Kind kind = std::exchange(kind_, Kind::none);  // a failed request is over, and MPI has freed it
  MPI_TRY(MPI_Test(&raw, &finished, &status));
  if (!finished) kind_ = kind;
  std::memcpy(raw_.data(), &raw, sizeof raw);
  if (!finished) return false;
  if (kind == Kind::receive) {
    MPI_Count count = 0;
    MPI_TRY(MPI_Get_elements_x(&status, MPI_BYTE, &count));
    received_ = {static_cast<std::int64_t>(count)};
  }
  return true;
}

void Request::cancel() noexcept {
  const Kind kind = std::exchange(kind_, Kind::none);
  if (kind == Kind::none || !running()) return;
  MPI_Request raw = load(raw_);
  if (kind == Kind::send) MPI_Request_free(&raw);
  if (kind == Kind::collective) collective_abandoned = true;
  if (kind != Kind::receive) return;
  MPI_Cancel(&raw);
  Backoff backoff;
  const Seconds end = now() + patience_with_cancel;
  for (int finished = 0; now() < end; backoff.pause()) {
    if (MPI_Test(&raw, &finished, MPI_STATUS_IGNORE) != MPI_SUCCESS || finished) return;
  }
}

void wait(Request& request, Seconds deadline, const char* what) {
  const Seconds end = now() + deadline;
  for (Backoff backoff; !request.test(); backoff.pause())
    FLOTILLA_REQUIRE(now() < end, ErrorKind::communication, what, ": some rank did not come within ", deadline);
}

}  // namespace flotilla::mpi
