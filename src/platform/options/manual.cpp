#include <algorithm>
#include <cctype>
#include <set>

#include "flotilla/options/documents.hpp"

namespace flotilla::options {
namespace {

/// Text that man(7) prints as it is.
std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  // A leading dot or apostrophe would be a request.
  const bool request = !out.empty() && (out[0] == '.' || out[0] == '\'');
  return request ? "\\&" + out : out;
}

std::string bold(const std::string& text) { return "\\fB" + escape(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escape(text) + "\\fR"; }

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string option_entry(const Setting& s) {
  std::string spellings;
  if (s.letter) spellings += bold(std::string{"-"} + s.letter) + ", ";
  if (!s.alias.empty()) spellings += bold("--" + s.alias) + ", ";
  spellings += bold("--" + s.name);
  if (!s.flag) spellings += " " + italic(s.value_name);
  std::string out = ".TP\n" + spellings + "\n" + escape(s.help) + ".\n";
  out += "Expects " + escape(s.kind) + (s.list ? "; may be repeated" : "") + ".\n";
  if (!s.default_value.empty())
    out += "Default: " + bold(s.default_value) + (s.unset.empty() ? "" : " (" + escape(s.unset) + ")") + ".\n";
  else if (!s.unset.empty())
    out += "Default: " + escape(s.unset) + ".\n";
  return out + "Environment: " + bold(s.environment) + ".\n";
}

std::string list_entry(const Table::Entries& list) {
  std::string out = ".TP\n" + bold("[[" + list.name + "]]") + "\n" + escape(list.title) + ", in the job file only.\n";
  for (const auto& s : list.keys().settings()) out += bold(s.name.substr(s.section.size() + 1)) + ": " + escape(s.help) + ".\n";
  return out;
}

std::string command_section(const Manual& manual) {
  std::string out = ".SH COMMANDS\n";
  for (const auto& command : manual.commands)
    out += ".TP\n" + bold(manual.program + " " + command.name) + (command.operands.empty() ? "" : " " + italic(command.operands)) + "\n" +
           escape(command.summary) + ".\n";
  return out;
}

std::string options_of(const Table& table, std::set<std::string>& seen) {
  std::string out;
  const auto settings = table.settings();
  for (const auto& section : table.sections()) {
    std::string entries;
    for (const auto& s : settings)
      if (s.section == section.name && seen.insert(s.name).second) entries += option_entry(s);
    for (const auto& list : table.entries())
      if (list.section == section.name && seen.insert(list.name).second) entries += list_entry(list);
    if (!entries.empty()) out += ".SS " + escape(section.title) + " [" + escape(section.name) + "]\n" + entries;
  }
  return out;
}

}  // namespace

std::string man_page(const Manual& manual) {
  std::string out = ".TH " + upper(manual.program) + " 1 \"\" \"" + manual.program + " " + manual.version + "\" \"User Commands\"\n";
  out += ".ad l\n";  // lists of names are long words: lines of equal length would be mostly blanks, or cannot be made
  out += ".SH NAME\n" + manual.program + " \\- " + escape(manual.summary) + "\n";
  out += ".SH SYNOPSIS\n" + bold(manual.program) + " " + italic("command") + " [" + italic("options") + "] [" + italic("file") + "]\n";
  out += ".SH DESCRIPTION\n";
  for (const auto& paragraph : manual.description) out += ".PP\n" + escape(paragraph) + "\n";
  out += command_section(manual) + ".SH OPTIONS\n";
  std::set<std::string> seen;
  for (const auto& command : manual.commands)
    if (command.table != nullptr) out += options_of(*command.table, seen);
  out += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : manual.exit_codes) out += ".TP\n" + bold(code) + "\n" + escape(meaning) + ".\n";
  return out;
}

}  // namespace flotilla::options
