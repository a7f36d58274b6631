#include "flotilla/base/key_values.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla {
namespace {

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// Units of the figures that we print.
constexpr std::array<std::string_view, 20> units{"%",   "s",   "ms",  "us",   "ns",   "min",  "h",     "d",       "B",       "KiB",
                                                 "MiB", "GiB", "TiB", "kB/s", "MB/s", "GB/s", "tok/s", "TFLOP/s", "GFLOP/s", "USD"};

bool is_unit(std::string_view word) {
  const auto last = word.find_last_not_of(",;:.)");
  return last != std::string_view::npos && std::ranges::find(units, word.substr(0, last + 1)) != units.end();
}

bool is_figure(std::string_view word) {
  const auto first = word.find_first_not_of("(+-~");
  return first != std::string_view::npos && word[first] >= '0' && word[first] <= '9' && word.back() >= '0' && word.back() <= '9';
}

}  // namespace

std::size_t end_of_word(const std::string& text, std::size_t begin) {
  const auto blank = [&](std::size_t from) { return std::min(text.find(' ', from), text.size()); };
  const std::string_view all{text};
  auto end = blank(begin);
  if (all.substr(begin, end - begin) == "+-" && end < text.size()) {
    begin = end + 1;
    end = blank(begin);
  }
  if (end == text.size() || !is_figure(all.substr(begin, end - begin))) return end;
  const auto after = blank(end + 1);
  return is_unit(all.substr(end + 1, after - end - 1)) ? after : end;
}

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
