#include "flotilla/base/text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "flotilla/base/ids.hpp"

namespace flotilla {
namespace {

template <class... Parts>
std::string streamed(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

TEST(Text, IsWhatAStreamWouldWrite) {
  const std::string name = "layer";
  const char* letters = "abc";
  EXPECT_EQ(text(), "");
  EXPECT_EQ(text(name, ' ', 12, " of ", 24u, std::string_view{"!"}, letters), "layer 12 of 24!abc");
  const auto parts = [](auto&& check) { check(-7, true, 'x', 1.5, 1e-9, std::numeric_limits<std::int64_t>::min(), Rank{3}); };
  parts([](const auto&... p) { EXPECT_EQ(text(p...), streamed(p...)); });
  EXPECT_EQ(text(std::uint8_t{65}, std::size_t{18}), streamed(std::uint8_t{65}, std::size_t{18}));
}

}  // namespace
}  // namespace flotilla
