#pragma once
#include <optional>
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

/// A number, or null for none.
inline std::optional<double> get_optional(const Json& object, std::string_view key) {
  const Json place = object.at(key);
  return place.is_null() ? std::nullopt : std::optional{place.as_double(0)};
}

/// The value of an optional member, or `otherwise`.
inline std::string get_string_or(const Json& object, std::string_view key, std::string_view otherwise) {
  return object.has(key) ? object.get_string(key) : std::string{otherwise};
}

}  // namespace flotilla::files
