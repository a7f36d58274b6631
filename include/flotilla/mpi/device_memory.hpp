#pragma once
#include <string>

namespace flotilla::mpi {

/// Whether the MPI library takes the memory of CUDA devices where it takes the host's (it is "CUDA-aware"), by its own word: empty where it
/// says so, else why not, in one line. Asked of the library at run time by MPIX_Query_cuda_support, which Open MPI, MPICH and what is made
/// from them have; a library without it counts as one that does not, whatever its transports (UCX, libfabric) could do. Only where MPI
/// runs.
std::string why_no_device_memory();

}  // namespace flotilla::mpi
