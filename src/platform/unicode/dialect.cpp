#include "dialect.hpp"

#include <array>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::unicode {
namespace {

/// Reads the pattern once and writes it anew. PCRE2's \s takes in U+180E, and its \w leaves marks out: both are written as properties.
class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_{pattern} {}

  std::string run() {
    while (at_ < pattern_.size()) step();
    if (in_class_) refuse("a class that is not closed");
    return std::move(out_);
  }

 private:
  void step() {
    const char c = pattern_[at_];
    if (c == '\\') return escape();
    if (in_class_) return class_character(c);
    if (c == '[') return open_class();
    if (c == '(') return group();
    if (c == '{' || c == '}') return interval(c);
    copy(1);
  }

  void escape() {
    if (at_ + 1 == pattern_.size()) refuse("an escape without a character");
    const char c = pattern_[at_ + 1];
    if (c == 's') return write(2, "\\p{White_Space}");
    if (c == 'S') return write(2, "\\P{White_Space}");
    if (c == 'd') return write(2, "\\p{Nd}");
    if (c == 'D') return write(2, "\\P{Nd}");
    if (c == 'w') return write(2, in_class_ ? word : "[" + std::string{word} + "]");
    if (c == 'W' && !in_class_) return write(2, "[^" + std::string{word} + "]");
    if (c == 'p' || c == 'P') return property();
    constexpr std::string_view plain = "rntfv";
    const bool letter_or_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter_or_digit && plain.find(c) == plain.npos) refuse(text("the escape ", in_quotes(pattern_.substr(at_, 2))));
    if (c == 'v') return write(2, "\\x{b}");  // PCRE2's stands for every vertical space
    copy(2);
  }

  void property() {
    const auto end = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || end == pattern_.npos) refuse("a property without braces");
    copy(end + 1 - at_);
  }

  void open_class() {
    in_class_ = true;
    copy(at_ + 1 < pattern_.size() && pattern_[at_ + 1] == '^' ? 2 : 1);
    if (at_ < pattern_.size() && pattern_[at_] == ']') refuse("a class that begins with ]");
  }

  void class_character(char c) {
    if (c == '[') refuse("a class within a class");
    if (c == '&' && pattern_.substr(at_, 2) == "&&") refuse("an intersection of classes");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void group() {
    if (pattern_.substr(at_, 2) == "(*") refuse("a repeat of nothing");  // a verb of PCRE2's
    if (pattern_.substr(at_, 2) != "(?") return copy(1);
    constexpr std::array<std::string_view, 7> known{"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    for (const auto opening : known)
      if (pattern_.substr(at_).starts_with(opening)) return copy(opening.size());
    refuse(text("the group ", in_quotes(pattern_.substr(at_, 4))));
  }

  /// {n}, {n,} and {n,m} mean the same in both; what follows a plus does not.
  void interval(char c) {
    const auto end = pattern_.find('}', at_);
    if (c == '}' || end == pattern_.npos) refuse("a brace that is no interval");
    const auto inside = pattern_.substr(at_ + 1, end - at_ - 1);
    if (inside.empty() || inside.front() == ',' || inside.find_first_not_of("0123456789,") != inside.npos)
      refuse("a brace that is no interval");
    if (end + 1 < pattern_.size() && pattern_[end + 1] == '+') refuse("a possessive interval");
    copy(end + 1 - at_);
  }

  void copy(std::size_t bytes) { write(bytes, pattern_.substr(at_, bytes)); }
  void write(std::size_t bytes, std::string_view translated) {
    out_ += translated;
    at_ += bytes;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error{ErrorKind::bad_input, text("regular expression, byte ", at_, ": ", what, " is not supported")};
  }

  static constexpr const char* word = "\\p{L}\\p{M}\\p{Nd}\\p{Pc}";
  std::string_view pattern_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string in_pcre2(std::string_view pattern) { return Translation{pattern}.run(); }

}  // namespace flotilla::unicode
