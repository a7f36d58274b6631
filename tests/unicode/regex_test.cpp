#include "flotilla/unicode/regex.hpp"

#include <gtest/gtest.h>

#include "flotilla/unicode/normal_form.hpp"
#include "support/refusal.hpp"

namespace flotilla::unicode {
namespace {

using tests::expect_refused;

std::vector<std::string> all(const std::string& pattern, const std::string& text) {
  const Regex regex{pattern};
  MatchEffort effort{text.size()};
  Matches matches{regex, text, effort};
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
  MatchEffort effort{4};
  const auto match = Regex::literal(".*").find("a.*b", 0, effort);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->first, 1u);
  EXPECT_EQ(match->last, 3u);
}

/// Matches that go on, begin or end where the library's window of the text does are those of the whole text.
TEST(Regex, NoMatchDependsOnHowMuchOfTheTextIsLookedAt) {
  for (std::size_t length : {1, 62, 63, 64, 65, 127, 128, 129, 1000, 100'000}) {
    const std::string word(length, 'x'), blanks(length, ' ');
    EXPECT_EQ(all("x+", "-" + word + "-"), Found{word});
    EXPECT_EQ(all(R"(\s+(?!\S)|\S+|\s+)", word + blanks + " y"), (Found{word, blanks, " ", "y"}));
    EXPECT_EQ(all("(?<=x)y", word + "y"), Found{"y"});
    if (length <= 1000) {
      EXPECT_EQ(all("x+y|x", word + "z").size(), length);
    }
    EXPECT_EQ(all("$", word), Found{""});
    EXPECT_EQ(all("z", word + "z"), Found{"z"});
  }
}

TEST(Regex, WhatCostsMoreThanInProportionIsRefused) {
  const std::string many(200'000, 'a');
  expect_refused([&] { all("[^x]*y|a", many); }, "regular expression", "looks at a byte");
  expect_refused([&] { all(R"((?=(a+))\w*b)", many); }, "looks at a byte");
  expect_refused([&] { all("a*a*a*a*b", many); }, "looks at a byte");
  EXPECT_EQ(all(R"(\p{L}+)", many), Found{many});
  EXPECT_EQ(all(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{M}]*[\p{Ll}\p{M}]+|[\p{Lu}\p{M}]+)", std::string(200'000, 'A')).size(), 1u);
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
