#include "flotilla/unicode/utf8.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace flotilla::unicode {
namespace {

/// What may follow a lead byte: how many bytes, and the range of the first of them. Unicode's table of well-formed sequences.
struct Follow {
  std::size_t bytes = 0;
  unsigned char least = 0x80, most = 0xbf;
};

Follow follow_of(unsigned char lead) {
  if (lead >= 0xc2 && lead <= 0xdf) return {1};
  if (lead == 0xe0) return {2, 0xa0};
  if (lead == 0xed) return {2, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {2};
  if (lead == 0xf0) return {3, 0x90};
  if (lead == 0xf4) return {3, 0x80, 0x8f};
  if (lead >= 0xf1 && lead <= 0xf3) return {3};
  return {};
}

/// The character, or its longest beginning, at the start of `bytes`, which is not ASCII.
struct Start {
  std::size_t bytes = 1;
  bool whole = false;
};

Start start_of(std::string_view bytes) {
  auto follow = follow_of(static_cast<unsigned char>(bytes[0]));
  const auto wanted = follow.bytes + 1;
  std::size_t at = 1;
  for (; at < std::min(wanted, bytes.size()); ++at, follow.least = 0x80, follow.most = 0xbf) {
    const auto byte = static_cast<unsigned char>(bytes[at]);
    if (byte < follow.least || byte > follow.most) break;
  }
  return {at, wanted > 1 && at == wanted};
}

std::size_t ascii_prefix(std::string_view bytes) {
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= bytes.size(); at += sizeof word) {
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if (word & 0x8080808080808080u) break;
  }
  while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) ++at;
  return at;
}

}  // namespace

std::size_t valid_prefix(std::string_view bytes) {
  for (std::size_t at = 0;;) {
    at += ascii_prefix(bytes.substr(at));
    if (at == bytes.size()) return at;
    const auto start = start_of(bytes.substr(at));
    if (!start.whole) return at;
    at += start.bytes;
  }
}

std::string repaired(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto valid = valid_prefix(bytes);
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text.append("\xef\xbf\xbd");
    bytes.remove_prefix(start_of(bytes).bytes);
  }
  return text;
}

}  // namespace flotilla::unicode
