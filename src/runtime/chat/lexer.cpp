#include "lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::chat {
namespace {

using TokenKind = Token::Kind;

constexpr std::size_t longest_tag = 10'000;

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// One kind of line end, and one less at the end: as Jinja reads a template.
std::string normalized_source(std::string_view source) {
  std::string lines;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      lines += source[i];
    } else {
      lines += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

void append_character(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 63));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 63));
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  }
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name) : source_{normalized_source(source)}, name_{name} {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const auto open = next_opening();
      take_data(open);
      if (open == source_.npos) break;
      at_ = open + 2;
      if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
      if (source_[open + 1] == '#')
        skip_comment(open);
      else
        take_tag(open, source_[open + 1] == '{');
    }
    at_ = source_.size();
    add(TokenKind::end, "", at_);
    return std::move(tokens_);
  }

 private:
  TemplateLocation place(std::size_t at) {
    for (; counted_ < at; ++counted_) {
      if (source_[counted_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else if (unicode::begins_character(source_[counted_])) {
        ++place_.column;
      }
    }
    return place_;
  }
  template <class... Parts>
  [[noreturn]] void fail(std::size_t at, const Parts&... parts) {
    place_ = {};
    counted_ = 0;
    refuse(name_, place(at), parts...);
  }
  void add(TokenKind kind, std::string text, std::size_t at) { tokens_.push_back({kind, std::move(text), place(at)}); }

  std::size_t next_opening() const {
    for (auto at = at_; (at = source_.find('{', at)) != source_.npos; ++at)
      if (at + 1 < source_.size() && (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#')) return at;
    return source_.npos;
  }

  /// Text up to an opening, less what its sign or the beginning of its line takes away.
  void take_data(std::size_t open) {
    const auto end = open == source_.npos ? source_.size() : open;
    auto last = end;
    const char sign = open != source_.npos && open + 2 < source_.size() ? source_[open + 2] : ' ';
    if (sign == '-') {
      while (last > at_ && is_blank(source_[last - 1])) --last;
    } else if (open != source_.npos && sign != '+' && source_[open + 1] != '{') {
      auto line = end;
      while (line > at_ && source_[line - 1] != '\n') --line;
      const bool at_line_start = line > at_ || line == 0 || source_[line - 1] == '\n';
      if (at_line_start &&
          std::all_of(source_.begin() + static_cast<std::ptrdiff_t>(line), source_.begin() + static_cast<std::ptrdiff_t>(end), is_blank))
        last = line;
    }
    if (last > at_) add(TokenKind::data, source_.substr(at_, last - at_), at_);
  }

  /// Behind a tag, before whose end a minus or a plus is a sign of it: all white space after a minus, else the line end after a block or a
  /// comment.
  void skip_behind(std::size_t close, bool line_end) {
    at_ = close + 2;
    const char sign = close > 0 ? source_[close - 1] : ' ';
    if (sign == '-')
      while (at_ < source_.size() && is_blank(source_[at_])) ++at_;
    else if (line_end && sign != '+' && at_ < source_.size() && source_[at_] == '\n')
      ++at_;
  }

  void skip_comment(std::size_t open) {
    const auto close = source_.find("#}", at_);
    if (close == source_.npos) fail(open, "a comment that does not end: expected #}");
    if (close == at_ && at_ == open + 3) fail(open, "a comment of a sign alone");
    skip_behind(close, true);
  }

  void take_tag(std::size_t open, bool output) {
    add(output ? TokenKind::output_begin : TokenKind::block_begin, "", open);
    const std::string_view end = output ? "}}" : "%}";
    int brackets = 0;
    for (const auto first = tokens_.size();;) {
      if (tokens_.size() - first > longest_tag) fail(open, "a tag longer than ", longest_tag, " tokens");
      while (at_ < source_.size() && is_blank(source_[at_])) ++at_;
      if (at_ >= source_.size()) fail(open, "a tag that does not end: expected ", end);
      const auto signed_end = (source_[at_] == '-' || (!output && source_[at_] == '+')) && source_.compare(at_ + 1, 2, end) == 0;
      if (brackets == 0 && (signed_end || source_.compare(at_, 2, end) == 0)) break;
      take_token(brackets);
    }
    if (source_.compare(at_, 2, end) != 0) ++at_;
    const auto close = at_;
    add(output ? TokenKind::output_end : TokenKind::block_end, "", close);
    skip_behind(close, !output);
  }

  void take_token(int& brackets) {
    const char c = source_[at_];
    if (begins_name(c)) return take_name();
    if (is_digit(c)) return take_number();
    if (c == '\'' || c == '"') return take_string(c);
    static constexpr std::array<std::string_view, 25> symbols{"//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                                              ">",  "=",  ".",  ":",  ",",  "|",  "(", ")", "[", "]", "{", "}"};
    const auto found =
        std::ranges::find_if(symbols, [&](std::string_view symbol) { return source_.compare(at_, symbol.size(), symbol) == 0; });
    if (found == symbols.end()) fail(at_, "unexpected character ", in_quotes(source_.substr(at_, unicode::character_bytes(c))));
    if (*found == "(" || *found == "[" || *found == "{") ++brackets;
    if (*found == ")" || *found == "]" || *found == "}") brackets = std::max(0, brackets - 1);
    add(TokenKind::symbol, std::string{*found}, at_);
    at_ += found->size();
  }

  void take_name() {
    const auto first = at_;
    while (at_ < source_.size() && (begins_name(source_[at_]) || is_digit(source_[at_]))) ++at_;
    add(TokenKind::name, source_.substr(first, at_ - first), first);
  }

  void take_number() {
    const auto first = at_;
    const auto digits = [&] {
      while (at_ < source_.size() && is_digit(source_[at_])) ++at_;
    };
    digits();
    bool fraction = false;
    if (at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1]) && !follows_dot()) fraction = true, ++at_, digits();
    if (at_ + 1 < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E') && is_digit(source_[at_ + 1]))
      fraction = true, ++at_, digits();
    if (at_ < source_.size() && begins_name(source_[at_])) fail(first, "a number with letters or underscores is not supported");
    if (!fraction && at_ > first + 1 && source_[first] == '0') fail(first, "a number that begins with 0");
    add(fraction ? TokenKind::fraction : TokenKind::whole, source_.substr(first, at_ - first), first);
  }
  bool follows_dot() const { return !tokens_.empty() && tokens_.back().is("."); }

  void take_string(char quote) {
    const auto first = at_++;
    std::string value;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\')
        take_escape(first, value);
      else
        value += source_[at_++];
    }
    if (at_ >= source_.size()) fail(first, "a string that does not end");
    ++at_;
    add(TokenKind::string, std::move(value), first);
  }

  void take_escape(std::size_t first, std::string& value) {
    if (++at_ >= source_.size()) fail(first, "a string that does not end");
    const char c = source_[at_++];
    static constexpr std::string_view letters = "ntrabfv\\'\"", meanings = "\n\t\r\a\b\f\v\\'\"";
    if (const auto known = letters.find(c); known != letters.npos) {
      value += meanings[known];
    } else if (c == '\n') {
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_code(first, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, value);
    } else if (c >= '0' && c <= '7') {
      --at_;
      std::size_t count = 1;
      while (count < 3 && at_ + count < source_.size() && source_[at_ + count] >= '0' && source_[at_ + count] <= '7') ++count;
      append_code(first, count, 8, value);
    } else if (c == 'N') {
      fail(at_ - 2, "\\N{...} is not supported; write the character");
    } else {
      (value += '\\') += c;
    }
  }

  void append_code(std::size_t first, std::size_t count, int base, std::string& value) {
    std::uint32_t code = 0;
    const char* begin = source_.data() + at_;
    const bool there = at_ + count <= source_.size() && std::from_chars(begin, begin + count, code, base).ptr == begin + count;
    if (!there || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) fail(at_, "an escape that is no character");
    if (at_ + count >= source_.size()) fail(first, "a string that does not end");
    append_character(value, code);
    at_ += count;
  }

  const std::string source_;
  const std::string_view name_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0, counted_ = 0;
  TemplateLocation place_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source, std::string_view name) {
  if (unicode::valid_prefix(source) != source.size()) refuse(name, {}, "a template that is not UTF-8");
  return Lexer{source, name}.run();
}

}  // namespace flotilla::chat
