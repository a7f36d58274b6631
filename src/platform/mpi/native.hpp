#pragma once
// Private: for this room, and for tests that look below it.
#include <mpi.h>

#include <atomic>

#include "flotilla/base/unique_handle.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::mpi {

/// A non-blocking collective was given up. Open MPI goes on trying to advance it and crashes when its communicator is gone, so from then
/// on no communicator is freed.
extern std::atomic<bool> collective_abandoned;

struct CommunicatorTraits {
  using Raw = MPI_Comm;
  static Raw null() noexcept { return MPI_COMM_NULL; }
  static void destroy(Raw communicator) noexcept {
    int finalized = 0;
    MPI_Finalized(&finalized);
    const bool predefined = communicator == MPI_COMM_WORLD || communicator == MPI_COMM_SELF;
    if (!finalized && !predefined && !collective_abandoned) MPI_Comm_free(&communicator);
  }
};

struct Communicator::Native {
  UniqueHandle<CommunicatorTraits> handle;
};

/// The handle stays the communicator's.
inline MPI_Comm native(const Communicator& communicator) { return communicator.native().handle.get(); }

}  // namespace flotilla::mpi
