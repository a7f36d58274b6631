#include <algorithm>

#include "flotilla/base/key_values.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::options {
namespace {

constexpr int help_column = 34;

std::string spelling(const Setting& s) {
  std::string out;
  if (s.letter) out += std::string{"-"} + s.letter + ", ";
  if (!s.alias.empty()) out += "--" + s.alias + ", ";
  out += "--" + s.name;
  if (!s.flag) out += " " + (s.value_name.size() > 24 ? "NAME" : s.value_name);
  return out;
}

std::string default_in_words(const Setting& s) {
  const bool empty = s.default_value.empty();
  if (s.flag && s.default_value == "false") return {};
  if (empty && s.unset.empty()) return {};
  if (s.unset.empty()) return " (default " + s.default_value + ")";
  return empty ? " (default: " + s.unset + ")" : " (default " + s.default_value + ": " + s.unset + ")";
}

std::string row(const Setting& s, const std::string& spelled, int width) {
  std::string line = "  " + spelled;
  line += line.size() + 2 > help_column ? "\n" + std::string(help_column, ' ') : std::string(help_column - line.size(), ' ');
  std::string words = s.help + (s.list ? "; may be repeated" : "");
  if (s.value_name.size() > 24 && !s.choices.empty()) {
    words += "; one of";
    for (const auto& choice : s.choices) words += " " + choice;
  }
  return line + wrap(words + default_in_words(s), help_column, width - help_column) + "\n";
}

std::string entries_help(const Table::Entries& list, int width) {
  std::string out = "\n" + list.title + " [[" + list.name + "]], job file only\n";
  for (const auto& s : list.keys().settings()) out += row(s, s.name.substr(s.section.size() + 1) + " " + s.value_name, width);
  return out;
}

}  // namespace

std::string wrap(const std::string& words, int indent, int width) {
  std::string out;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < words.size();) {
    const auto end = end_of_word(words, begin);
    const auto length = end - begin;
    const bool breaks = column > 0 && column + 1 + length > static_cast<std::size_t>(width);
    if (breaks) out += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
    if (!breaks && column > 0) out += ' ';
    column = breaks ? length : column + (column > 0) + length;
    out += words.substr(begin, length);
    begin = end + 1;
  }
  return out;
}

std::string help(const Table& table, int width) {
  std::string out;
  const auto settings = table.settings();
  for (const auto& section : table.sections()) {
    out += (out.empty() ? "" : "\n") + section.title + " [" + section.name + "]\n";
    for (const auto& s : settings)
      if (s.section == section.name) out += row(s, spelling(s), std::max(width, 60));
    for (const auto& list : table.entries())
      if (list.section == section.name) out += entries_help(list, std::max(width, 60));
  }
  return out;
}

}  // namespace flotilla::options
