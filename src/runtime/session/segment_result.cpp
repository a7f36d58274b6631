#include "flotilla/session/segment_result.hpp"

#include <sstream>

#include "flotilla/base/error.hpp"

namespace flotilla::session {

std::string to_text(const Ending& ending) {
  return text(static_cast<int>(ending.code), ' ', ending.step, ' ', ending.updates, ' ', ending.next ? 1 : 0, ' ', ending.reason);
}

Ending ending_from_text(const std::string& words) {
  std::istringstream in{words};
  int code = 0, goes_on = 0;
  Ending ending;
  in >> code >> ending.step >> ending.updates >> goes_on;
  FLOTILLA_ASSERT(in && in.get() == ' ', "not the end of a segment: '", words, "'");
  ending.code = static_cast<ExitCode>(code);
  ending.next = goes_on != 0;
  std::getline(in, ending.reason, '\0');
  return ending;
}

}  // namespace flotilla::session
