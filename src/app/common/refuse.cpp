#include "app/common/refuse.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::app {
void refuse(const options::Setting& s, const std::string& word, const std::string& what) {
  const std::string shown = printable(word);
  if (s.origin == options::Origin::command_line)
    throw Error{ErrorKind::usage, text("--", s.alias.empty() ? s.name : s.alias, shown.empty() ? "" : " ", shown, ": ", what)};
  const std::string place = s.origin == options::Origin::job_file      ? s.source + ": "
                            : s.origin == options::Origin::environment ? s.environment + ": "
                                                                       : "";
  throw Error{ErrorKind::bad_input, text(place, s.name, shown.empty() ? "" : " = ", shown, ": ", what)};
}

}  // namespace flotilla::app
