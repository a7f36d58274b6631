#include <algorithm>
#include <cctype>

#include "flotilla/base/error.hpp"
#include "flotilla/slurm/script.hpp"
#include "site_fields.hpp"

namespace flotilla::slurm {
namespace {

bool every_is(const std::string& word, const std::string& signs) {
  return std::ranges::all_of(word, [&](char c) {
    return (std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 0x80) || signs.find(c) != signs.npos;
  });
}

}  // namespace

std::string shell_word(const std::string& word) {
  FLOTILLA_REQUIRE(word.find('\0') == word.npos, ErrorKind::bad_input, "'", shown(word), "': a zero byte in it; no shell can pass it on");
  if (!word.empty() && every_is(word, "_@%+:,./-")) return word;
  std::string quoted = "'";
  for (char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

bool is_plain(const std::string& word) { return !word.empty() && word.front() != '-' && every_is(word, "_@%+:,./-=[]&|*"); }

}  // namespace flotilla::slurm
