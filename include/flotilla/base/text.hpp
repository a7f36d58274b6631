#pragma once
#include <sstream>
#include <string>

namespace flotilla {

/// All arguments streamed one after the other into a string.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace flotilla
