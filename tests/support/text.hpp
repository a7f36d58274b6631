#pragma once
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace flotilla::tests {

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

}  // namespace flotilla::tests
