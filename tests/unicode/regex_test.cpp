#include "flotilla/unicode/regex.hpp"

#include <gtest/gtest.h>

#include "flotilla/unicode/normal_form.hpp"
#include "support/refusal.hpp"

namespace flotilla::unicode {
namespace {

using tests::expect_refused;

std::vector<std::string> all(const std::string& pattern, const std::string& text) {
  const Regex regex{pattern};
  Matches matches{regex, text};
  std::vector<std::string> found;
  while (const auto match = matches.next()) found.push_back(text.substr(match->first, match->last - match->first));
  return found;
}

using Found = std::vector<std::string>;

TEST(Regex, ClassesAreThoseOfUnicode) {
  EXPECT_EQ(all(R"(\p{L}+)", "a\xc3\xa9 \xd0\x96 1"), (Found{"a\xc3\xa9", "\xd0\x96"}));
  EXPECT_EQ(all(R"(\s)",
                "a\xe3\x80\x80"
                "b\xc2\x85\xe1\xa0\x8e"),
            (Found{"\xe3\x80\x80", "\xc2\x85"}));  // U+180E is no space
  EXPECT_EQ(all(R"([^\s\p{L}]+)", "ab, c!"), (Found{",", "!"}));
  EXPECT_EQ(all(R"(\w+)", "a_1\xcc\x81-b"), (Found{"a_1\xcc\x81", "b"}));
}

TEST(Regex, RepeatsAndLookAround) {
  EXPECT_EQ(all(R"(\s+(?!\S)|\s+)", "a   b  "), (Found{"  ", " ", "  "}));
  EXPECT_EQ(all(R"(\p{N}{1,3})", "12345"), (Found{"123", "45"}));
  EXPECT_EQ(all("(?i:'s|'ll)", "'S 'lL 'x"), (Found{"'S", "'lL"}));
  EXPECT_EQ(all("a?", "ba"), (Found{"", "a"}));  // an empty match behind a match is passed over
}

TEST(Regex, ALiteralIsItself) {
  const auto match = Regex::literal(".*").find("a.*b", 0);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->first, 1u);
  EXPECT_EQ(match->last, 3u);
}

TEST(Regex, WhatMeansSomethingElseIsRefused) {
  for (const char* pattern :
       {R"(\h)", R"(\b)", R"(\1)", "[a[b]]", "[a&&b]", "(?m:a)", "(?<n>a)", "a{,3}", "a{1,2}+", R"(\pL)", "(*ACCEPT)", "[]a]", "a\\"})
    expect_refused([&] { Regex{pattern}; }, "regular expression", "not supported");
  for (const char* pattern : {"(a", "[z-a]", R"(\p{Nothing})", "*"}) expect_refused([&] { Regex{pattern}; }, "regular expression");
}

TEST(NormalForm, ComposesAndDecomposes) {
  const std::string composed = "\xc3\xa9", decomposed = "e\xcc\x81", ligature = "\xef\xac\x81";
  EXPECT_EQ(normalized(decomposed, NormalForm::nfc), composed);
  EXPECT_EQ(normalized(composed, NormalForm::nfd), decomposed);
  EXPECT_EQ(normalized(ligature, NormalForm::nfkc), "fi");
  EXPECT_EQ(normalized(ligature, NormalForm::nfc), ligature);
  EXPECT_EQ(normalized(std::string{"a\0b", 3}, NormalForm::nfc), (std::string{"a\0b", 3}));
}

}  // namespace
}  // namespace flotilla::unicode
