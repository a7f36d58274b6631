#pragma once
#include <mpi.h>

#include <source_location>

namespace flotilla::mpi {

/// Throws Error{communication} with the call's name, MPI's words for the code, and the place.
[[noreturn]] void throw_mpi_error(const char* call, int code, std::source_location where = std::source_location::current());

}  // namespace flotilla::mpi

/// Every MPI call that can fail goes through this.
#define MPI_TRY(call)                                                                                   \
  do {                                                                                                  \
    if (const int code_ = (call); code_ != MPI_SUCCESS) ::flotilla::mpi::throw_mpi_error(#call, code_); \
  } while (false)
