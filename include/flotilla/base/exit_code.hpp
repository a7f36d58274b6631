#pragma once

namespace flotilla {

/// The one table of exit codes; the batch scripts read it.
enum class ExitCode : int {
  done = 0,
  usage = 64,        ///< the command line is wrong
  bad_input = 65,    ///< a file or a value in it is wrong
  no_input = 66,     ///< a file or folder is not there, or may not be read
  unavailable = 69,  ///< something is missing: a device, a library, space on a disk
  internal = 70,     ///< our bug
  requeue = 75,      ///< saved; start me again
  no_plan = 76,      ///< no plan fits the devices
  lost_peer = 77,    ///< a peer or node was lost
};

}  // namespace flotilla
