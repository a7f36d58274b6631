#include "flotilla/base/key_values.hpp"

#include <algorithm>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla {
namespace {

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::size_t shown_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string key_values(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::size_t width = 0;
  for (const auto& pair : pairs) width = std::max(width, shown_width(printable(pair.first)));
  std::string out;
  for (const auto& pair : pairs) {
    const auto key = printable(pair.first), value = printable_lines(pair.second);
    std::string head = key + std::string(width - shown_width(key), ' ');
    for (std::size_t begin = 0; begin <= value.size();) {
      const auto end = std::min(value.find('\n', begin), value.size());
      out += without_trailing_blanks(head + "  " + value.substr(begin, end - begin)) + "\n";
      head.assign(width, ' ');
      begin = end + 1;
      if (begin == value.size()) break;  // the value's own last newline
    }
  }
  return out;
}

}  // namespace flotilla
