#include "flotilla/unicode/utf8.hpp"

#include <gtest/gtest.h>

namespace flotilla::unicode {
namespace {

const std::string mark = "\xef\xbf\xbd";

TEST(Utf8, ValidTextStays) {
  for (const std::string text :
       {"", "a", "0123456789 abcdefgh", "\xc2\x80", "\xe2\x82\xac", "\xed\x9f\xbf\xee\x80\x80", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(valid_prefix(text), text.size());
    EXPECT_EQ(repaired(text), text);
  }
}

TEST(Utf8, ASequenceIsReplacedOnce) {
  EXPECT_EQ(repaired("a\xff"
                     "b"),
            "a" + mark + "b");
  EXPECT_EQ(repaired("\xe2\x82"), mark);  // the beginning of a character
  EXPECT_EQ(repaired("\xe2\x82 x"), mark + " x");
  EXPECT_EQ(repaired("\xf0\x9f\x98\xf0\x9f\x98\x80"), mark + "\xf0\x9f\x98\x80");
  EXPECT_EQ(repaired("\xed\xa0\x80"), mark + mark + mark);             // a surrogate is no character
  EXPECT_EQ(repaired("\xc0\xaf"), mark + mark);                        // overlong
  EXPECT_EQ(repaired("\xf4\x90\x80\x80"), mark + mark + mark + mark);  // beyond U+10FFFF
  EXPECT_EQ(repaired("\x80\xbf"), mark + mark);
}

TEST(Utf8, ValidPrefixEndsBeforeTheDamage) {
  const std::string before(100, 'x');
  EXPECT_EQ(valid_prefix(before + "\xe2\x82\xac\xe2\x82"), before.size() + 3);
}

}  // namespace
}  // namespace flotilla::unicode
