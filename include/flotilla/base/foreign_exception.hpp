#pragma once
#include <exception>

#include "flotilla/base/error.hpp"

namespace flotilla {

/// Whose fault an exception of any kind is: an Error's own; memory, threads and files that the system refuses are unavailable; anything
/// else is internal.
ErrorKind kind_of(const std::exception&) noexcept;

}  // namespace flotilla
