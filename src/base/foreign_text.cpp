#include "flotilla/base/foreign_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace flotilla {
namespace {

constexpr std::string_view ellipsis = "...", gap = " ... ";

unsigned byte(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

/// A character of UTF-8 at the beginning of a text; size 0 where there is none.
struct Character {
  std::uint32_t code = 0;
  std::size_t size = 0;
};

/// Overlong forms, surrogates and what lies beyond U+10FFFF are no characters (RFC 3629).
Character first_character(std::string_view text) {
  const unsigned lead = byte(text, 0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return {};
  std::uint32_t code = lead & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(text, i) & 0xc0u) != 0x80) return {};
    code = (code << 6) | (byte(text, i) & 0x3fu);
  }
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[size] || code > 0x10ffff || surrogate) return {};
  return {code, size};
}

bool is_control(std::uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

/// Line separators, direction marks and what has no width.
bool steers(std::uint32_t code) {
  return (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
}

std::string escaped(const char* format, std::uint32_t value) {
  std::array<char, 16> out{};
  std::snprintf(out.data(), out.size(), format, static_cast<unsigned>(value));
  return out.data();
}

std::string shown(std::string_view bytes, std::uint32_t code) {
  switch (code) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
  }
  if (code < 0x20) return escaped("\\x%02x", code);
  if (is_control(code) || steers(code)) return escaped("\\u%04x", code);
  return std::string{bytes};
}

/// Takes one character, or one byte that belongs to none, from the text.
std::string take(std::string_view& text) {
  const auto next = first_character(text);
  const auto bytes = text.substr(0, next.size == 0 ? 1 : next.size);
  const auto out = next.size == 0 ? escaped("\\x%02x", byte(text, 0)) : shown(bytes, next.code);
  text.remove_prefix(bytes.size());
  return out;
}

/// As much of the text as fits, and what is left of it in `text`.
std::string printed(std::string_view& text, std::size_t most) {
  std::string out;
  while (!text.empty()) {
    auto rest = text;
    const auto next = take(rest);
    if (out.size() + next.size() > most) break;
    out += next;
    text = rest;
  }
  return out;
}

/// The last characters that fit.
std::string_view end_of(std::string_view printed_text, std::size_t most) {
  std::size_t at = printed_text.size() - most;
  while (at < printed_text.size() && (byte(printed_text, at) & 0xc0u) == 0x80) ++at;
  return printed_text.substr(at);
}

constexpr std::size_t any_length = std::numeric_limits<std::size_t>::max();

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  auto out = printed(text, most);
  return text.empty() ? out : out.append(ellipsis);
}

std::string in_quotes(std::string_view text, std::size_t most) { return "'" + printable(text, most) + "'"; }

std::string message_line(std::string_view text, std::size_t most) {
  const auto all = printed(text, any_length);
  if (all.size() <= most) return all;
  const std::size_t tail = (most - gap.size()) / 3;
  std::string_view head = all;
  auto out = printed(head, most - gap.size() - tail);
  return out.append(gap).append(end_of(all, tail));
}

std::string printable_lines(std::string_view text) {
  std::string out;
  for (;;) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    out += printed(line, any_length);
    if (end == text.npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string printable_output(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto at = std::min({text.find(bold), text.find(not_bold), text.size()});
    out += printable_lines(text.substr(0, at));
    text.remove_prefix(at);
    const auto mark = text.substr(0, bold.size());  // both are of one length
    out += mark;
    text.remove_prefix(mark.size());
  }
  return out;
}

}  // namespace flotilla
