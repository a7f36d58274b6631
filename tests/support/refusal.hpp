#pragma once
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "flotilla/base/error.hpp"

/// What is refused, how, and with which words.
namespace flotilla::tests {

/// The Error (or the kind of Error named) that `action` throws; a test failure where it throws none.
template <class Thrown = Error, class Action>
Thrown error_of(Action&& action) {
  try {
    action();
  } catch (const Thrown& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was refused";
  return {ErrorKind::internal, "nothing was refused"};
}

/// Its message, which must be one line and of that kind.
template <class Thrown = Error, class Action>
std::string refusal(ErrorKind kind, Action&& action) {
  const Error error = error_of<Thrown>(action);
  const std::string message = error.what();
  EXPECT_EQ(error.kind(), kind) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << "one line: " << message;
  return message;
}
template <class Action>
std::string refusal(Action&& action) {
  return refusal(ErrorKind::bad_input, action);
}

inline void expect_contains(std::string_view message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string_view::npos) << "\"" << part << "\" is missing in: " << message;
}

/// `action` must throw Error{bad_input} of one line that holds every one of `parts`.
template <class Action, class... Parts>
void expect_refused(Action&& action, Parts... parts) {
  const std::string message = refusal(action);
  (expect_contains(message, parts), ...);
}

/// The same of what is not there, or may not be read.
template <class Action, class... Parts>
void expect_absent(Action&& action, Parts... parts) {
  const std::string message = refusal(ErrorKind::no_input, action);
  (expect_contains(message, parts), ...);
}

}  // namespace flotilla::tests
