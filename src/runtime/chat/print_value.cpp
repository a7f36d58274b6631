#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

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

void put(std::string& out, std::string_view part) {
  Budget::bytes(part.size());
  if (out.size() + part.size() > longest_text) throw std::invalid_argument{text("a text of more than ", longest_text, " bytes")};
  out += part;
}

class JsonWriter {
 public:
  JsonWriter(std::optional<std::int64_t> indent, std::string& out) : indent_{indent}, out_{out} {}

  void write(const Value& value, int depth) const {
    Budget::elements(1);
    if (value.items() != nullptr) return list(*value.items(), depth);
    if (value.members() != nullptr) return dict(*value.members(), depth);
    put(out_, of_scalar(value));
  }

 private:
  static std::string of_scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (const auto* flag = value.as<bool>()) return *flag ? "true" : "false";
    if (const auto* number = value.as<double>()) {
      if (std::isfinite(*number)) return float_text(*number);
      return std::isnan(*number) ? "NaN" : *number > 0 ? "Infinity" : "-Infinity";
    }
    if (const auto number = value.whole()) return std::to_string(*number);
    if (value.text() != nullptr) return json_quoted(*value.text());
    throw std::invalid_argument{text("tojson: ", value.type(), " is no JSON")};
  }
  void list(const List& items, int depth) const {
    put(out_, "[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      separate(i == 0, depth + 1);
      write(items[i], depth + 1);
    }
    close(items.empty(), depth, "]");
  }
  void dict(const Members& members, int depth) const {
    put(out_, "{");
    for (std::size_t i = 0; i < members.size(); ++i) {
      separate(i == 0, depth + 1);
      put(out_, json_quoted(members[i].first) + ": ");
      write(members[i].second, depth + 1);
    }
    close(members.empty(), depth, "}");
  }
  void separate(bool first, int depth) const { put(out_, indent_ ? (first ? "" : ",") + line(depth) : first ? "" : ", "); }
  void close(bool empty, int depth, const char* bracket) const { put(out_, (empty ? "" : line(depth)) + bracket); }
  std::string line(int depth) const { return indent_ ? "\n" + std::string(static_cast<std::size_t>(*indent_ * depth), ' ') : ""; }

  const std::optional<std::int64_t> indent_;
  std::string& out_;
};

void represent(const Value& value, std::string& out);

void represent_list(const Value& value, std::string& out) {
  const bool tuple = value.type() == "tuple";
  put(out, tuple ? "(" : "[");
  bool first = true;
  for (const auto& item : *value.items()) {
    if (!std::exchange(first, false)) put(out, ", ");
    represent(item, out);
  }
  put(out, !tuple ? "]" : value.items()->size() == 1 ? ",)" : ")");
}

void represent(const Value& value, std::string& out) {
  Budget::elements(1);
  if (value.is_undefined()) return put(out, "Undefined");
  if (value.is_none()) return put(out, "None");
  if (const auto* flag = value.as<bool>()) return put(out, *flag ? "True" : "False");
  if (const auto* number = value.as<double>()) return put(out, float_text(*number));
  if (const auto number = value.whole()) return put(out, std::to_string(*number));
  if (value.text() != nullptr) return put(out, quoted(*value.text()));
  if (value.items() != nullptr) return represent_list(value, out);
  if (value.members() == nullptr || value.box()->names_space)
    throw std::invalid_argument{text("the text of ", value.type(), " is not supported")};
  put(out, "{");
  bool first = true;
  for (const auto& [key, member] : *value.members()) {
    put(out, (std::exchange(first, false) ? "" : ", ") + quoted(key) + ": ");
    represent(member, out);
  }
  put(out, "}");
}

}  // namespace

std::string as_json(const Value& value, std::optional<std::int64_t> indent) {
  if (indent && (*indent < 0 || *indent > 64)) throw std::invalid_argument{"tojson: an indent from 0 to 64"};
  std::string out;
  JsonWriter{indent, out}.write(value, 0);
  return out;
}

std::string printed(const Value& value) {
  if (value.is_undefined()) return "";
  return value.text() != nullptr ? *value.text() : represented(value);
}

std::string represented(const Value& value) {
  std::string out;
  represent(value, out);
  return out;
}

}  // namespace flotilla::chat
