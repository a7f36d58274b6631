#include "flotilla/base/error.hpp"

#include <cstdio>
#include <cstdlib>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla {

Error::Error(ErrorKind kind, const std::string& message) : std::runtime_error{message_line(message, longest_message)}, kind_{kind} {}

ExitCode exit_code(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::usage: return ExitCode::usage;
    case ErrorKind::bad_input: return ExitCode::bad_input;
    case ErrorKind::no_input: return ExitCode::no_input;
    case ErrorKind::unavailable:
    case ErrorKind::temporary: return ExitCode::unavailable;
    case ErrorKind::no_plan: return ExitCode::no_plan;
    case ErrorKind::communication: return ExitCode::lost_peer;
    case ErrorKind::internal: break;
  }
  return ExitCode::internal;
}

void assertion_failed(const char* expression, const std::string& message, std::source_location where) noexcept {
  std::fprintf(stderr, "flotilla: bug: %s:%u: %s does not hold%s%s\n", where.file_name(), where.line(), expression,
               message.empty() ? "" : ": ", message_line(message).c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace flotilla
