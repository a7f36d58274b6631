#include "app/common/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "app/common/terminal.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::app {
namespace {

constexpr std::size_t longest_cell = 400;
constexpr std::size_t longest_whole_word = 16;  // of a column that has to become narrow
constexpr std::size_t narrowest_column = 6;
constexpr std::size_t key_gap = 2;
constexpr std::size_t least_key_width = 11;  // so that the lines of several answers stand in one column

bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale{value};
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string padded(const std::string& text, std::size_t width, Align align) {
  const std::string blanks(width - std::min(width, shown_width(text)), ' ');
  return align == Align::left ? text + blanks : blanks + text;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(' ', begin)) < text.size();) {
    const auto end = end_of_word(text, begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  for (const auto& word : words_of(text)) longest = std::max(longest, shown_width(word));
  return longest;
}

/// Bytes of the first `characters` of a UTF-8 text.
std::size_t bytes_of(const std::string& text, std::size_t characters) {
  std::size_t end = 0;
  for (; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && characters-- == 0) break;
  return end;
}

/// Bytes of a long word that go on a line: up to a mark between its parts, if one is there.
std::size_t head_of(const std::string& word, std::size_t width) {
  const auto most = bytes_of(word, width);
  const auto mark = word.find_last_of("_./:-@,", most - 1);
  return mark == std::string::npos || mark < most / 3 ? most : mark + 1;
}

/// The text in lines of at most `width` characters.
std::vector<std::string> broken_to(const std::string& text, std::size_t width) {
  if (shown_width(text) <= width) return {text};
  std::vector<std::string> lines{""};
  for (auto word : words_of(text)) {
    auto& line = lines.back();
    const bool fits = shown_width(line) + (line.empty() ? 0 : 1) + shown_width(word) <= width;
    if (fits)
      line += (line.empty() ? "" : " ") + word;
    else if (!line.empty())
      lines.emplace_back();
    if (fits) continue;
    while (shown_width(word) > width) {
      const auto head = head_of(word, width);
      lines.back() = word.substr(0, head);
      lines.emplace_back();
      word.erase(0, head);
    }
    lines.back() = word;
  }
  return lines;
}

}  // namespace

Style output_style() {
  if (!output_is_terminal()) return {};
  const char* refused = std::getenv("NO_COLOR");
  return {refused == nullptr || *refused == '\0', utf8_locale()};
}

int output_width() {
  winsize size{};
  if (!output_is_terminal() || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return table_width;
  return std::clamp<int>(size.ws_col, table_width, 100);
}

std::string key_values_within(std::vector<std::pair<std::string, std::string>> lines, int width) {
  std::size_t key_width = least_key_width;
  for (const auto& line : lines) key_width = std::max(key_width, shown_width(line.first) + key_gap);
  for (auto& [key, value] : lines) {
    key.resize(std::max(key.size(), least_key_width - key_gap), ' ');
    std::string wrapped;
    for (std::size_t begin = 0; begin < value.size();) {
      const auto end = std::min(value.find('\n', begin), value.size());
      wrapped += (wrapped.empty() ? "" : "\n") + options::wrap(value.substr(begin, end - begin), 0, width - static_cast<int>(key_width));
      begin = end + 1;
    }
    value = wrapped;
  }
  return key_values(lines);
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string all;
  for (const auto& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

void TextTable::add(std::vector<std::string> row, std::string note) {
  FLOTILLA_ASSERT(row.size() <= columns_.size(), row.size(), " cells in ", columns_.size(), " columns");
  row.resize(columns_.size());
  for (auto& cell : row) cell = printable(cell, longest_cell);
  rows_.push_back({std::move(row), std::move(note)});
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (const auto& column : columns_) widths.push_back(shown_width(column.title));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], shown_width(row.cells[i]));
  return widths;
}

bool TextTable::narrow(Layout& layout, const std::vector<std::size_t>& least) const {
  auto& widths = layout.widths;
  const std::size_t gaps = layout.gap * (columns_.size() - 1);
  while (std::accumulate(widths.begin(), widths.end(), gaps) > static_cast<std::size_t>(table_width)) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    if (widest == widths.size()) return false;
    --widths[widest];
  }
  return true;
}

TextTable::Layout TextTable::fitted() const {
  // Figures stay whole; the words of their titles may stand below each other, and at last be broken.
  std::vector<std::size_t> whole_words, whole_figures;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t word = longest_word(columns_[i].title), figure = 0;
    for (const auto& row : rows_) {
      const bool right = columns_[i].align == Align::right;
      if (right) figure = std::max(figure, shown_width(row.cells[i]));
      word = std::max(word, right ? figure : std::min(longest_word(row.cells[i]), longest_whole_word));
    }
    whole_words.push_back(word);
    whole_figures.push_back(std::max(figure, std::min(word, narrowest_column)));
  }
  Layout layout{widths()};
  if (narrow(layout, whole_words)) return layout;
  layout.gap = 1;
  if (!narrow(layout, whole_words)) narrow(layout, whole_figures);
  return layout;
}

std::string TextTable::print_row(const std::vector<std::string>& cells, const Layout& layout) const {
  const auto& widths = layout.widths;
  const std::string gap(layout.gap, ' ');
  std::vector<std::vector<std::string>> broken;
  std::size_t lines = 1;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    broken.push_back(broken_to(cells[i], widths[i]));
    lines = std::max(lines, broken.back().size());
  }
  std::string out;
  for (std::size_t l = 0; l < lines; ++l) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i)
      line += (i == 0 ? "" : gap) + padded(l < broken[i].size() ? broken[i][l] : "", widths[i], columns_[i].align);
    out += without_trailing_blanks(line) + "\n";
  }
  return out;
}

std::string TextTable::print(const Style& style) const {
  const auto layout = fitted();
  std::vector<std::string> titles;
  std::string rule;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    if (i > 0) rule.append(layout.gap, ' ');
    for (std::size_t n = 0; n < layout.widths[i]; ++n) rule += style.unicode ? "\u2500" : "-";
  }
  std::string header = print_row(titles, layout);
  header.pop_back();
  std::string out = (style.colour ? text(bold, header, not_bold) : header) + "\n" + rule + "\n";
  for (const auto& row : rows_) {
    out += print_row(row.cells, layout);
    if (!row.note.empty()) out += "  " + row.note + "\n";
  }
  return out;
}

}  // namespace flotilla::app
