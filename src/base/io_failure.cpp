#include "flotilla/base/io_failure.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace flotilla {
namespace {

constexpr std::array temporary{
    ENOSPC,    EDQUOT,    EROFS,                                   // full, over quota, remounted read-only after an error
    ESTALE,    EIO,       EREMOTEIO,    ENODEV,     ENXIO,         // the server or the device is away
    ENOTCONN,  ESHUTDOWN, ECONNREFUSED, ECONNRESET, ECONNABORTED,  // the same, of file systems in user space
    ETIMEDOUT, EHOSTDOWN, EHOSTUNREACH, ENETDOWN,   ENETUNREACH,   // the network to it
    EAGAIN,    EINTR,     EBUSY,        ENOLCK,     ENOMEM,       ENFILE, EMFILE,
};

}  // namespace

IoFailure io_failure(int error_number) noexcept {
  if (error_number == ENOENT || error_number == ENOTDIR) return IoFailure::absent;
  return std::ranges::find(temporary, error_number) != temporary.end() ? IoFailure::temporary : IoFailure::permanent;
}

ErrorKind io_error_kind(int error_number) noexcept {
  return io_failure(error_number) == IoFailure::temporary ? ErrorKind::temporary : ErrorKind::unavailable;
}

ErrorKind read_error_kind(int error_number) noexcept {
  return io_failure(error_number) == IoFailure::temporary ? ErrorKind::temporary : ErrorKind::no_input;
}

}  // namespace flotilla
