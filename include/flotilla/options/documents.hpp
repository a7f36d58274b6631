#pragma once
#include <string>
#include <utility>
#include <vector>

#include "flotilla/options/table.hpp"

/// Texts made from a table. None of them ends up different from what the table reads.
namespace flotilla::options {

/// Options by section with defaults and units, wrapped at `width` columns (at least 60).
std::string help(const Table&, int width = 96);

/// The effective configuration as a job file: every option, with its source as a comment; reading it gives the same values.
std::string to_toml(const Table&);

/// A table per section in Markdown: key, kind of value, default, meaning.
std::string to_markdown(const Table&);

/// A command for the documents below. `table` may be null; `operands` is what stands after the options: "JOB", "FILE".
struct DocumentedCommand {
  std::string name, summary, operands;
  const Table* table = nullptr;
};

struct Manual {
  std::string program, version, summary;
  std::vector<std::string> description;  ///< paragraphs
  std::vector<DocumentedCommand> commands;
  std::vector<std::pair<std::string, std::string>> exit_codes;  ///< "64", "the command line is wrong"
};

/// Section 1 manual page, man(7) macros. Options are listed once, under the first command that has them.
std::string man_page(const Manual&);

/// Bash completion for commands, options, choices and file names. Source it, or put it into bash-completion's folder.
std::string bash_completion(const std::string& program, const std::vector<DocumentedCommand>&);

/// Lines of at most `width` characters, broken between words (end_of_word()); every line but the first is indented by `indent` besides.
std::string wrap(const std::string& words, int indent, int width);

}  // namespace flotilla::options
