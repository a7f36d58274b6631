#include "flotilla/base/text.hpp"
#include "flotilla/options/documents.hpp"

namespace flotilla::options {
namespace {

bool takes_path(const Setting& s) { return s.value_name == "FILE" || s.value_name == "DIRECTORY"; }

std::vector<std::string> spellings(const Setting& s) {
  std::vector<std::string> all{"--" + s.name};
  if (!s.alias.empty()) all.push_back("--" + s.alias);
  if (s.letter) all.push_back(std::string{"-"} + s.letter);
  return all;
}

std::string words(const std::vector<std::string>& list, const char* separator) {
  std::string out;
  for (const auto& word : list) out += (out.empty() ? "" : separator) + word;
  return out;
}

/// `pattern) action ;;` lines: what may follow an option of this command.
std::string values_of(const Table& table) {
  std::string out;
  for (const auto& s : table.settings()) {
    if (s.flag) continue;
    std::string action = "COMPREPLY=()";
    if (takes_path(s)) action = "COMPREPLY=($(compgen -f -- \"$current\"))";
    if (!s.choices.empty()) action = "COMPREPLY=($(compgen -W '" + words(s.choices, " ") + "' -- \"$current\"))";
    out += "        " + words(spellings(s), "|") + ") " + action + "; return ;;\n";
  }
  return out;
}

std::string branch(const DocumentedCommand& command) {
  std::string out = text("    ", command.name, ")\n"), names = "--help";
  if (command.table != nullptr) {
    out += "      case \"$previous\" in\n" + values_of(*command.table) + "      esac\n";
    for (const auto& s : command.table->settings()) names += " " + words(spellings(s), " ");
  }
  return out + "      names='" + names + "' ;;\n";
}

}  // namespace

std::string bash_completion(const std::string& program, const std::vector<DocumentedCommand>& commands) {
  std::string names, branches;
  for (const auto& command : commands) {
    names += (names.empty() ? "" : " ") + command.name;
    branches += branch(command);
  }
  return "# bash completion for " + program + "; made by `" + program + " completion`\n" + "_" + program +
         "() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous= names=\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD <= 1)); then\n"
         "    COMPREPLY=($(compgen -W '" +
         names +
         " --help --version' -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  case ${COMP_WORDS[1]} in\n" +
         branches +
         "  esac\n"
         "  if [[ $current == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$names\" -- \"$current\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _" +
         program + " " + program + "\n";
}

}  // namespace flotilla::options
