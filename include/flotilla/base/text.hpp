#pragma once
#include <charconv>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace flotilla {

/// Adds what streaming the part would write. Strings and whole numbers, most of what is ever put together, need no stream.
template <class Part>
void append_text(std::string& out, const Part& part) {
  static_assert(!std::is_function_v<Part>, "a manipulator would reach no other part: format with a stream of your own");
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    out += std::string_view{part};
  } else if constexpr (std::is_integral_v<Part> && sizeof(Part) >= sizeof(short) && !std::is_same_v<Part, wchar_t> &&
                       !std::is_same_v<Part, char16_t> && !std::is_same_v<Part, char32_t>) {
    char digits[24];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, part).ptr);
  } else {
    std::ostringstream stream;
    stream << part;
    out += stream.str();
  }
}

/// All arguments streamed one after the other into a string.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

}  // namespace flotilla
