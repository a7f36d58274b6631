#pragma once
#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "flotilla/base/descriptor.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/patience.hpp"

namespace flotilla::store {

/// Throws Error{kind of errno} with the system's reason.
inline Descriptor open_descriptor(const std::filesystem::path& path, int flags, ErrorKind (*kind)(int) noexcept = io_error_kind) {
  Descriptor descriptor;
  const int error = patiently(path.native(), [&] {
    descriptor.reset(::open(path.c_str(), flags | O_CLOEXEC, 0664));
    return descriptor ? 0 : errno;
  });
  FLOTILLA_REQUIRE(descriptor, kind(error), path.string(), ": ", std::strerror(error));
  return descriptor;
}

}  // namespace flotilla::store
