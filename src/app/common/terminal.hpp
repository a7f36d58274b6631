#pragma once

namespace flotilla::app {

/// A person reads standard output on a terminal. Open MPI's mpirun gives its ranks a terminal of their own: then its own output decides.
bool output_is_terminal();

}  // namespace flotilla::app
