#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "flotilla/base/error.hpp"

namespace flotilla::files::testing {

/// Hands the bytes to `read`, which may succeed or throw Error{bad_input} of one line; anything else is a finding.
template <class Read>
int feed(const std::uint8_t* data, std::size_t size, Read read) {
  try {
    read(std::string_view{reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input || std::string_view{error.what()}.find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}

}  // namespace flotilla::files::testing
