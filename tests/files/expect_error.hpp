#pragma once
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "flotilla/base/error.hpp"

namespace flotilla::files::testing {

/// `run` must throw Error{bad_input} of one line that holds every one of `parts`.
template <class Run, class... Parts>
void expect_refused(Run run, Parts... parts) {
  try {
    run();
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    for (const std::string_view part : {std::string_view{parts}...})
      EXPECT_NE(what.find(part), std::string::npos) << what << "\nlacks " << part;
  }
}

/// `text` with the first `from` replaced; `from` must be there.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The first ```json block of a page.
inline std::string json_block(const std::string& page) {
  const std::string fence = "```json\n";
  const std::size_t start = page.find(fence), end = page.find("\n```", start);
  EXPECT_NE(start, std::string::npos);
  EXPECT_NE(end, std::string::npos);
  return page.substr(start + fence.size(), end - start - fence.size());
}

}  // namespace flotilla::files::testing
