#include "app/common/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/key_values.hpp"

namespace flotilla::app {
namespace {

constexpr std::size_t longest_cell = 400;

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

}  // namespace

Style output_style() {
  if (::isatty(STDOUT_FILENO) == 0) return {};
  const char* refused = std::getenv("NO_COLOR");
  return {refused == nullptr || *refused == '\0', utf8_locale()};
}

int output_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 96;
  return std::clamp<int>(size.ws_col, 80, 100);
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string all;
  for (const auto& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

void TextTable::add(std::vector<std::string> row) {
  FLOTILLA_ASSERT(row.size() <= columns_.size(), row.size(), " cells in ", columns_.size(), " columns");
  row.resize(columns_.size());
  for (auto& cell : row) cell = printable(cell, longest_cell);
  rows_.push_back(std::move(row));
}

std::string TextTable::print(const Style& style) const {
  std::vector<std::size_t> widths;
  for (const auto& column : columns_) widths.push_back(shown_width(column.title));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], shown_width(row[i]));
  std::string header, rule, out;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string gap = i == 0 ? "" : "  ";
    header += gap + padded(columns_[i].title, widths[i], columns_[i].align);
    rule += gap;
    for (std::size_t n = 0; n < widths[i]; ++n) rule += style.unicode ? "\u2500" : "-";
  }
  header = without_trailing_blanks(header);
  out += (style.colour ? "\033[1m" + header + "\033[0m" : header) + "\n" + rule + "\n";
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += (i == 0 ? "" : "  ") + padded(row[i], widths[i], columns_[i].align);
    out += without_trailing_blanks(line) + "\n";
  }
  return out;
}

}  // namespace flotilla::app
