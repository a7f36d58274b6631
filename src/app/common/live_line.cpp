#include "app/common/live_line.hpp"

#include <unistd.h>

#include <cstdio>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla::app {

LiveLine::LiveLine() : terminal_{isatty(STDERR_FILENO) != 0} {}

void LiveLine::show(const std::string& what) {
  if (!terminal_ || (what.empty() && !shown_)) return;
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%s", printable(what).c_str());
  std::fflush(stderr);
}

}  // namespace flotilla::app
