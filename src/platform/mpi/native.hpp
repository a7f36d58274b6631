#pragma once
// Private: for this room, and for parallel HDF5 (`store`), which needs the MPI_Comm.
#include <mpi.h>

#include "flotilla/base/unique_handle.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::mpi {

struct CommunicatorTraits {
  using Raw = MPI_Comm;
  static Raw null() noexcept { return MPI_COMM_NULL; }
  static void destroy(Raw communicator) noexcept {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Comm_free(&communicator);
  }
};

struct Communicator::Native {
  UniqueHandle<CommunicatorTraits> handle;
};

/// The handle stays the communicator's.
inline MPI_Comm native(const Communicator& communicator) { return communicator.native().handle.get(); }

}  // namespace flotilla::mpi
