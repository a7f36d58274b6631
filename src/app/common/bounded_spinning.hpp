#pragma once

namespace flotilla::app {

/// Starts this process anew with GOMP_SPINCOUNT set, so that threads that wait for each other go to sleep soon and leave their cores to
/// other work: libgomp reads the variable when it is loaded, before main(), and spins for milliseconds without it. Returns where the user
/// has said how threads wait (GOMP_SPINCOUNT or OMP_WAIT_POLICY), which is so after the new start, and where the system refuses it: then
/// the program runs as it is. Keeps process id, open files and arguments, so it works under mpirun and srun. Before MPI is initialised.
void bound_spinning(char** argv);

}  // namespace flotilla::app
