#pragma once
#include <string_view>

#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::files {

/// `parse` applied to the string at `place`; its Error is told with file and pointer.
template <class Parse>
auto parse_at(const Json& place, Parse parse) {
  const std::string value = place.as_string();
  try {
    return parse(value);
  } catch (const Error& error) {
    place.refuse(error.what());
  }
}

/// The value of an optional member, or `otherwise`.
inline std::string get_string_or(const Json& object, std::string_view key, std::string_view otherwise) {
  return object.has(key) ? object.get_string(key) : std::string{otherwise};
}

}  // namespace flotilla::files
