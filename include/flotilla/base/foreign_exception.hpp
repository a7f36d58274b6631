#pragma once
#include <exception>
#include <string>

#include "flotilla/base/error.hpp"

namespace flotilla {

/// Whose fault an exception of any kind is: an Error's own; memory, threads and files that the system refuses are unavailable; anything
/// else is internal.
ErrorKind kind_of(const std::exception&) noexcept;
/// Its message; of a thread that the system refuses, also what may be raised.
std::string in_words(const std::exception&);

}  // namespace flotilla
