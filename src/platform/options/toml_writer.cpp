#include <algorithm>

#include "flotilla/options/documents.hpp"

namespace flotilla::options {
namespace {

std::string key_of(const Setting& s) { return s.name.substr(s.section.size() + 1); }

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + cell(text) + "`"; }

std::string default_of(const Setting& s) {
  std::string value = code(s.default_value);
  if (s.unset.empty()) return value;
  return value.empty() ? s.unset : value + " = " + s.unset;
}

std::string line_of(const Setting& s) {
  // An optional that is unset has no spelling in TOML; a comment keeps its place.
  const std::string line = s.toml.empty() ? "# " + key_of(s) + " is unset" : key_of(s) + " = " + s.toml;
  return line + std::string(line.size() < 40 ? 40 - line.size() : 1, ' ');
}

std::string entries_to_toml(const Table::Entries& list) {
  std::string out;
  const auto tables = list.all();
  for (std::size_t i = 0; i < tables.size(); ++i) {
    out += "\n[[" + list.name + "]]" + (i < list.places.size() ? "  # " + list.places[i] : "") + "\n";
    for (const auto& s : tables[i].settings()) {
      auto line = line_of(s);
      out += line.erase(line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return out;
}

std::string rows_of(const std::vector<Setting>& settings, const std::string& section) {
  std::string rows;
  for (const auto& s : settings)
    if (s.section == section) rows += "| `" + key_of(s) + "` | " + cell(s.kind) + " | " + default_of(s) + " | " + cell(s.help) + " |\n";
  return rows;
}

constexpr const char* table_head = "\n\n| key | value | default | meaning |\n|---|---|---|---|\n";

}  // namespace

std::string to_toml(const Table& table) {
  std::string out, section;
  for (const auto& s : table.settings()) {
    if (s.section != section) out += (out.empty() ? "[" : "\n[") + s.section + "]\n";
    section = s.section;
    out += line_of(s) + "# " + s.source + "\n";
  }
  for (const auto& list : table.entries()) out += entries_to_toml(list);
  return out;
}

std::string to_markdown(const Table& table) {
  std::string out;
  const auto settings = table.settings();
  for (const auto& section : table.sections()) {
    out += "## [" + section.name + "] " + section.title + table_head + rows_of(settings, section.name) + "\n";
    for (const auto& list : table.entries())
      if (list.section == section.name)
        out += "## [[" + list.name + "]] " + list.title + table_head + rows_of(list.keys().settings(), list.name) + "\n";
  }
  return out;
}

}  // namespace flotilla::options
