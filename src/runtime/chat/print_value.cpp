#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "flotilla/base/text.hpp"
#include "value.hpp"

namespace flotilla::chat {
namespace {

/// Python's repr of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> digits{};
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, plain ? std::chars_format::fixed : std::chars_format::scientific)
          .ptr;
  std::string out{digits.data(), end};
  return plain && out.find('.') == out.npos ? out + ".0" : out;
}

/// Quoted as repr() quotes: printable characters as they are.
std::string quoted(const std::string& value) {
  const char quote = value.find('\'') != value.npos && value.find('"') == value.npos ? '"' : '\'';
  std::string out{quote};
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 32 || byte == 127) {
      constexpr const char* hex = "0123456789abcdef";
      out += text("\\x", std::string_view{hex + byte / 16, 1}, std::string_view{hex + byte % 16, 1});
    } else {
      out += c;
    }
  }
  return out + quote;
}

std::string json_quoted(const std::string& value) {
  std::string out{'"'};
  for (const char c : value) {
    static constexpr std::string_view special = "\"\\\n\r\t\b\f", letters = "\"\\nrtbf";
    if (const auto at = special.find(c); at != special.npos) {
      out += '\\';
      out += letters[at];
    } else if (static_cast<unsigned char>(c) < 32) {
      constexpr const char* hex = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      out += text("\\u00", std::string_view{hex + byte / 16, 1}, std::string_view{hex + byte % 16, 1});
    } else {
      out += c;
    }
  }
  return out + '"';
}

class JsonWriter {
 public:
  explicit JsonWriter(std::optional<std::int64_t> indent) : indent_{indent} {}

  std::string write(const Value& value, int depth) const {
    if (value.is_none()) return "null";
    if (const auto* flag = value.as<bool>()) return *flag ? "true" : "false";
    if (const auto* number = value.as<double>()) {
      if (std::isfinite(*number)) return float_text(*number);
      return std::isnan(*number) ? "NaN" : *number > 0 ? "Infinity" : "-Infinity";
    }
    if (const auto number = value.whole()) return std::to_string(*number);
    if (value.text() != nullptr) return json_quoted(*value.text());
    if (value.items() != nullptr) return of_list(*value.items(), depth);
    if (value.members() != nullptr) return of_dict(*value.members(), depth);
    throw std::invalid_argument{text("tojson: ", value.type(), " is no JSON")};
  }

 private:
  std::string of_list(const List& items, int depth) const {
    std::string out;
    for (const auto& item : items) out += separator(out.empty(), depth + 1) + write(item, depth + 1);
    return out.empty() ? "[]" : "[" + out + end(depth) + "]";
  }
  std::string of_dict(const Members& members, int depth) const {
    std::string out;
    for (const auto& [key, value] : members) out += separator(out.empty(), depth + 1) + json_quoted(key) + ": " + write(value, depth + 1);
    return out.empty() ? "{}" : "{" + out + end(depth) + "}";
  }
  std::string separator(bool first, int depth) const { return indent_ ? (first ? "" : ",") + end(depth) : first ? "" : ", "; }
  std::string end(int depth) const { return indent_ ? "\n" + std::string(static_cast<std::size_t>(*indent_ * depth), ' ') : ""; }

  const std::optional<std::int64_t> indent_;
};

}  // namespace

std::string as_json(const Value& value, std::optional<std::int64_t> indent) {
  if (indent && (*indent < 0 || *indent > 64)) throw std::invalid_argument{"tojson: an indent from 0 to 64"};
  return JsonWriter{indent}.write(value, 0);
}

std::string printed(const Value& value) {
  if (value.is_undefined()) return "";
  return value.text() != nullptr ? *value.text() : represented(value);
}

std::string represented(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (const auto* flag = value.as<bool>()) return *flag ? "True" : "False";
  if (const auto* number = value.as<double>()) return float_text(*number);
  if (const auto number = value.whole()) return std::to_string(*number);
  if (value.text() != nullptr) return quoted(*value.text());
  std::string out;
  if (value.items() != nullptr) {
    const bool tuple = value.type() == "tuple";
    for (const auto& item : *value.items()) out += (out.empty() ? "" : ", ") + represented(item);
    return tuple ? "(" + out + (value.items()->size() == 1 ? ",)" : ")") : "[" + out + "]";
  }
  if (value.members() == nullptr || value.box()->names_space)
    throw std::invalid_argument{text("the text of ", value.type(), " is not supported")};
  for (const auto& [key, member] : *value.members()) out += (out.empty() ? "" : ", ") + quoted(key) + ": " + represented(member);
  return "{" + out + "}";
}

}  // namespace flotilla::chat
