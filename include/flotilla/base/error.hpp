#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

#include "flotilla/base/exit_code.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla {

/// Whose fault it is; decides the exit code.
enum class ErrorKind {
  usage,          ///< command line
  bad_input,      ///< file contents, option values, disagreement between ranks about the job
  no_input,       ///< a file or folder that was named is not there, or may not be read
  unavailable,    ///< a device, library or peer program is missing
  temporary,      ///< the file system is full or away: the same may work later (io_failure.hpp)
  internal,       ///< our bug
  no_plan,        ///< no plan fits
  communication,  ///< a peer or node was lost, or did not answer within its deadline
};

ExitCode exit_code(ErrorKind kind) noexcept;

/// One line for the user: what, where, what was expected, what to do. It is one line whatever the message holds (message_line()).
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message);
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// Prints expression, message and place on standard error, then aborts.
[[noreturn]] void assertion_failed(const char* expression, const std::string& message,
                                   std::source_location where = std::source_location::current()) noexcept;

}  // namespace flotilla

/// The user's or a file's fault: FLOTILLA_REQUIRE(condition, ErrorKind::bad_input, parts of the message...) throws Error.
#define FLOTILLA_REQUIRE(condition, kind, ...)                                        \
  do {                                                                                \
    if (!(condition)) throw ::flotilla::Error{(kind), ::flotilla::text(__VA_ARGS__)}; \
  } while (false)

/// Our fault: FLOTILLA_ASSERT(condition, parts of the message...) aborts. Never on input, never with side effects.
#define FLOTILLA_ASSERT(condition, ...)                                                        \
  do {                                                                                         \
    if (!(condition)) ::flotilla::assertion_failed(#condition, ::flotilla::text(__VA_ARGS__)); \
  } while (false)
