#include "app/common/refuse.hpp"

#include "flotilla/base/error.hpp"

namespace flotilla::app {
namespace {

/// Short enough for one line, without half a UTF-8 sequence at its end.
std::string shortened(const std::string& word) {
  constexpr std::size_t longest = 100;
  if (word.size() <= longest) return word;
  auto end = longest;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80) --end;
  return word.substr(0, end) + "...";
}

}  // namespace

void refuse(const options::Setting& s, const std::string& word, const std::string& what) {
  const std::string shown = shortened(word);
  if (s.origin == options::Origin::command_line)
    throw Error{ErrorKind::usage, text("--", s.alias.empty() ? s.name : s.alias, shown.empty() ? "" : " ", shown, ": ", what)};
  const std::string place = s.origin == options::Origin::job_file      ? s.source + ": "
                            : s.origin == options::Origin::environment ? s.environment + ": "
                                                                       : "";
  throw Error{ErrorKind::bad_input, text(place, s.name, shown.empty() ? "" : " = ", shown, ": ", what)};
}

}  // namespace flotilla::app
