#pragma once
#include "flotilla/base/error.hpp"

/// What a failed system call says about a file. The one place that decides it: readers, savers and retries go by it.
namespace flotilla {

enum class IoFailure {
  absent,     ///< there is no such file: ENOENT, ENOTDIR, and nothing else
  temporary,  ///< the disk is full, over quota, read-only or away: the same call may work later
  permanent,  ///< waiting does not help: no permission, not a name, ...
};

/// `error_number`: errno of the call, not 0.
IoFailure io_failure(int error_number) noexcept;

/// ErrorKind::temporary for a temporary failure, ErrorKind::unavailable for any other. Both end a run with exit code 69; comm::agree
/// carries the difference to every rank, so that a save can be tried again.
ErrorKind io_error_kind(int error_number) noexcept;

/// The same where a file could not be opened for reading: ErrorKind::no_input for any failure that is not temporary.
ErrorKind read_error_kind(int error_number) noexcept;

}  // namespace flotilla
