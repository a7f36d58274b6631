#include "flotilla/base/hash.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace flotilla {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span{text.data(), text.size()}); }

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c(bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xFF})), 0x62A8AB43u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, ContinuesWhereItStopped) {
  const std::string_view text = "a value in several pieces of odd sizes";
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32c(bytes(text.substr(cut)), crc32c(bytes(text.substr(0, cut)))), crc32c(bytes(text)));
}

TEST(Fnv1a, KnownAnswers) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}

TEST(Hex, SixteenDigits) {
  EXPECT_EQ(hex(0), "0000000000000000");
  EXPECT_EQ(hex(0x0123456789abcdefu), "0123456789abcdef");
}

}  // namespace
}  // namespace flotilla
