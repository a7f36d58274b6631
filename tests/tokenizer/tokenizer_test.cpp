#include "flotilla/tokenizer/tokenizer.hpp"

#include <gtest/gtest.h>

#include "files.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::tokenizer {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens encoded(const std::string& json, std::string_view text) {
  const tests::TemporaryFolder folder;
  const auto tokenizer = open(folder.write("tokenizer.json", json));
  Tokens tokens;
  const auto encoder = tokenizer->encoder();
  encoder->encode(text, tokens);
  const auto before = tokens.size();
  encoder->encode(text, tokens);  // from the cache now, and behind others
  EXPECT_EQ((Tokens{tokens.begin() + static_cast<std::ptrdiff_t>(before), tokens.end()}),
            (Tokens{tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(before)}));
  tokens.resize(before);
  return tokens;
}

std::string plain(const std::string& before = "") { return test::file(before, test::model()); }

TEST(Bpe, TheSmallestRankGoesFirst) {
  EXPECT_EQ(encoded(plain(), "abc"), (Tokens{4}));
  EXPECT_EQ(encoded(plain(), "bcab"), (Tokens{5, 3}));
  EXPECT_EQ(encoded(plain(), "aabcbc"), (Tokens{0, 4, 5}));
  EXPECT_EQ(encoded(plain(), ""), Tokens{});
}

TEST(Bpe, ALongWordMergesLikeAShortOne) {
  std::string text;
  Tokens expected;
  for (int i = 0; i < 1000; ++i) text += "aabcbcabb", expected.insert(expected.end(), {0, 4, 5, 3, 1});
  EXPECT_EQ(encoded(plain(), text), expected);
}

TEST(Bpe, TheLeftmostOfEqualsGoesFirst) {
  const std::string model = R"("model": {"vocab": {"a": 0, "aa": 1, "aaa": 2}, "merges": ["a a", "aa a"]})";
  EXPECT_EQ(encoded(test::file("", model), "aaa"), (Tokens{2}));
  EXPECT_EQ(encoded(test::file("", model), "aaaaa"), (Tokens{1, 2}));
  EXPECT_EQ(encoded(test::file("", model), std::string(101, 'a')).back(), 2);
}

TEST(Bpe, UnknownCharacters) {
  EXPECT_EQ(encoded(plain(), "axxb"), (Tokens{3}));  // left out, and what stood around them merges
  const auto unknown = [](const std::string& more) { return test::file("", test::model(R"(, "unk_token": "?")" + more, R"(, "?": 6)")); };
  EXPECT_EQ(encoded(unknown(""), "axxb"), (Tokens{0, 6, 6, 1}));
  EXPECT_EQ(encoded(unknown(R"(, "fuse_unk": true)"), "axxb"), (Tokens{0, 6, 1}));
  const auto bytes = test::model(R"(, "unk_token": "?", "byte_fallback": true)", R"(, "?": 6, "<0xC3>": 7, "<0xA9>": 8)");
  EXPECT_EQ(encoded(test::file("", bytes), "a\xc3\xa9\xc3\xa8"), (Tokens{0, 7, 8, 6}));  // not all bytes of the second have tokens
}

TEST(Bpe, AWholeWordMayIgnoreMerges) {
  const auto model = test::model(R"(, "ignore_merges": true)", R"(, "cab": 6)");
  EXPECT_EQ(encoded(test::file("", model), "cab"), (Tokens{6}));
  EXPECT_EQ(encoded(plain(), "cab"), (Tokens{2, 3}));
}

TEST(Bpe, BytesOfAByteLevelVocabulary) {
  const std::string model = R"("model": {"vocab": {"\u0120": 0, "a": 1, "\u0120a": 2, "\u00c3": 3, "\u00a9": 4}, "merges": ["\u0120 a"]})";
  const std::string step = R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})";
  EXPECT_EQ(encoded(test::file(step, model), "a a\xc3\xa9"), (Tokens{2, 2, 3, 4}));
}

TEST(AddedTokens, AreFoundFirst) {
  const auto list = [](const std::string& tokens) { return plain(R"("added_tokens": [)" + tokens + "]"); };
  EXPECT_EQ(encoded(list(test::added("<b", 7) + "," + test::added("<bc>", 8)), "a<bc>b<bc"), (Tokens{0, 8, 1, 7, 2}));  // the longest
  EXPECT_EQ(encoded(list(test::added("x", 7, "lstrip rstrip")), "a  x  b"), (Tokens{0, 7, 1}));
  EXPECT_EQ(encoded(list(test::added("ab", 3, "single_word")), "ab abc"), (Tokens{3, 4}));
  EXPECT_EQ(encoded(list(test::added("c", 2)), "abc"), (Tokens{3, 2}));
}

TEST(Normalizer, ComesBeforeTokensOfNormalizedText) {
  const std::string step =
      R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "x"}, "content": "ab"},
    {"type": "Prepend", "prepend": "c"}]})";
  EXPECT_EQ(encoded(plain(step), "xc"), (Tokens{2, 4}));
  EXPECT_EQ(encoded(plain(step + R"(, "added_tokens": [)" + test::added("b", 1) + "]"), "xbx"), (Tokens{2, 3, 1, 2, 3}));
}

TEST(PreTokenizer, SplitsAsTheBehaviorSays) {
  const auto with = [](const std::string& behavior, const std::string& invert = "false") {
    return plain(R"("pre_tokenizer": {"type": "Split", "pattern": {"String": "b"}, "behavior": ")" + behavior + R"(", "invert": )" +
                 invert + "}");
  };
  EXPECT_EQ(encoded(with("Isolated"), "abbc"), (Tokens{0, 1, 1, 2}));
  EXPECT_EQ(encoded(with("Removed"), "abbc"), (Tokens{0, 2}));
  EXPECT_EQ(encoded(with("Removed", "true"), "abbc"), (Tokens{1, 1}));
  EXPECT_EQ(encoded(with("MergedWithPrevious"), "abbc"), (Tokens{3, 1, 2}));
  EXPECT_EQ(encoded(with("MergedWithNext"), "abbc"), (Tokens{0, 1, 5}));
  EXPECT_EQ(encoded(with("Contiguous"), "abbc"), (Tokens{0, 1, 1, 2}));
}

TEST(PreTokenizer, MetaspaceMarksSpaces) {
  const std::string model = R"("model": {"vocab": {"\u2581": 0, "a": 1, "\u2581a": 2, "b": 3}, "merges": ["\u2581 a"]})";
  const auto with = [&](const std::string& scheme) {
    return test::file(R"("added_tokens": [)" + test::added("b", 3) +
                          R"(], "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": ")" + scheme +
                          R"(", "split": false})",
                      model);
  };
  EXPECT_EQ(encoded(with("first"), "a aba"), (Tokens{2, 2, 3, 1}));
  EXPECT_EQ(encoded(with("always"), "a aba"), (Tokens{2, 2, 3, 2}));
  EXPECT_EQ(encoded(with("never"), "a  a"), (Tokens{1, 0, 2}));
}

}  // namespace
}  // namespace flotilla::tokenizer
