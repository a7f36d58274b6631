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

}  // namespace

std::string to_toml(const Table& table) {
  std::string out, section;
  for (const auto& s : table.settings()) {
    if (s.section != section) out += (out.empty() ? "[" : "\n[") + s.section + "]\n";
    section = s.section;
    // An optional that is unset has no spelling in TOML; a comment keeps its place.
    const std::string line = s.toml.empty() ? "# " + key_of(s) + " is unset" : key_of(s) + " = " + s.toml;
    out += line + std::string(line.size() < 40 ? 40 - line.size() : 1, ' ') + "# " + s.source + "\n";
  }
  return out;
}

std::string to_markdown(const Table& table) {
  std::string out;
  const auto settings = table.settings();
  for (const auto& section : table.sections()) {
    out += "## [" + section.name + "] " + section.title + "\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
    for (const auto& s : settings)
      if (s.section == section.name)
        out += "| `" + key_of(s) + "` | " + cell(s.kind) + " | " + default_of(s) + " | " + cell(s.help) + " |\n";
    out += "\n";
  }
  return out;
}

}  // namespace flotilla::options
