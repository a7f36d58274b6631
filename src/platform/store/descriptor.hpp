#pragma once
#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "flotilla/base/descriptor.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/patience.hpp"

namespace flotilla::store {

/// Throws Error{unavailable or temporary} with the system's reason.
inline Descriptor open_descriptor(const std::filesystem::path& path, int flags) {
  Descriptor descriptor;
  const int error = patiently(path.native(), [&] {
    descriptor.reset(::open(path.c_str(), flags | O_CLOEXEC, 0664));
    return descriptor ? 0 : errno;
  });
  FLOTILLA_REQUIRE(descriptor, io_error_kind(error), path.string(), ": ", std::strerror(error));
  return descriptor;
}

}  // namespace flotilla::store
