#include <algorithm>
#include <cctype>

#include "answer_fields.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/slurm/script.hpp"

namespace flotilla::slurm {
namespace {

bool every_is(const std::string& word, const std::string& signs) {
  return std::ranges::all_of(word, [&](char c) {
    return (std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 0x80) || signs.find(c) != signs.npos;
  });
}

/// In a word that is printed byte by byte: what is no sign of ASCII.
bool needs_code(char c) { return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f; }

std::string octal(char c) {
  const auto value = static_cast<unsigned char>(c);
  const auto digit = [](int d) { return static_cast<char>('0' + d); };
  return {'\\', digit(value >> 6), digit((value >> 3) & 7), digit(value & 7)};
}

}  // namespace

std::string shell_word(const std::string& word) {
  FLOTILLA_REQUIRE(word.find('\0') == word.npos, ErrorKind::bad_input, in_quotes(word), ": a zero byte in it; no shell can pass it on");
  if (!word.empty() && every_is(word, "_@%+:,./-")) return word;
  // Bash's own quotes for what would end a line of the script, steer a terminal or be no text: $'a\012b'.
  const bool coded = printable(word, std::string::npos) != word;
  std::string quoted = coded ? "$'" : "'";
  for (char c : word) {
    if (coded && needs_code(c))
      quoted += octal(c);
    else if (coded && (c == '\'' || c == '\\'))
      quoted += std::string{'\\'} + c;
    else if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

bool is_plain(const std::string& word) {
  // Letters of other scripts are bytes to sbatch; what is no text, or steers a terminal, prints otherwise than it stands there.
  std::string ascii = word;
  std::erase_if(ascii, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  return !word.empty() && word.front() != '-' && every_is(ascii, "_@%+:,./-=[]&|*") && printable(word, std::string::npos) == word;
}

}  // namespace flotilla::slurm
