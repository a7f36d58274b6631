#include "flotilla/page/markup.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla::page {
namespace {

/// For text and for values between quotation marks alike.
std::string escaped(std::string_view words) {
  std::string out;
  for (const char c : printable_lines(words)) switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

/// HTML's elements that end themselves; all others need an end of their own, even where nothing is in them.
bool is_void(std::string_view name) { return name == "meta" || name == "br"; }

}  // namespace

/// The one place where markup is put together.
class Element {
 public:
  static Markup make(Name name, std::initializer_list<Attribute> attributes, const Markup& content) {
    std::string out = "<";
    out += name.text();
    for (const auto& [key, value] : attributes) append(out, key, value);
    if (is_void(name.text())) return Markup{out + "/>"};
    return Markup{text(out, ">", content.text(), "</", name.text(), ">")};
  }

 private:
  static void append(std::string& out, Name key, const std::string& value) {
    out += ' ';
    out += key.text();
    out += "=\"" + escaped(value) + "\"";
  }
};

Markup words(std::string_view text) { return Markup{escaped(text)}; }

Attribute::Attribute(Name n, double v) : name{n} {
  std::array<char, 64> digits{};
  const double rounded = std::round(v * 10) / 10;
  const double shown = std::isfinite(rounded) && std::abs(rounded) < 1e15 ? rounded + 0.0 : 0;  // + 0.0: no "-0"
  value.assign(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), shown).ptr);
}

Markup element(Name name, std::initializer_list<Attribute> attributes, const Markup& content) {
  return Element::make(name, attributes, content);
}

Markup element(Name name, std::initializer_list<Attribute> attributes, std::string_view content) {
  return Element::make(name, attributes, words(content));
}

}  // namespace flotilla::page
