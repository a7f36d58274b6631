// tokenizer.json: what is refused, and by which words.
#include <gtest/gtest.h>

#include "files.hpp"
#include "flotilla/tokenizer/tokenizer.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::tokenizer {
namespace {

using tests::expect_refused;

class TokenizerFile : public ::testing::Test {
 protected:
  std::unique_ptr<const Tokenizer> read(const std::string& json) const { return open(folder_.write("tokenizer.json", json)); }
  template <class... Words>
  void refused(const std::string& json, Words... words) const {
    expect_refused([&] { read(json); }, "tokenizer.json", words...);
  }
  const tests::TemporaryFolder folder_;
};

TEST_F(TokenizerFile, FieldsThatAreNotUnderstood) {
  const auto with = [](const std::string& before) { return test::file(before, test::model()); };
  refused(with(R"("normaliser": null)"), "normaliser");
  refused(with(R"("normalizer": {"type": "Lowercase"})"), "/normalizer/type", "Lowercase");
  refused(with(R"("pre_tokenizer": {"type": "Whitespace"})"), "/pre_tokenizer/type", "Whitespace");
  refused(with(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": false})"),
          "/pre_tokenizer/pattern/Regex", "regular expression");
  refused(with(R"("pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Once", "invert": false})"),
          "/pre_tokenizer/behavior");
  refused(with(R"("post_processor": {"type": "Other"})"), "/post_processor/type");
  refused(test::file("", R"("model": {"type": "WordPiece"})"), "/model/type", "WordPiece");
  refused(test::file("", R"("model": {"type": "Unigram"})"), "/model/type", ".model");
  refused(test::file("", test::model(R"(, "dropout": 0.1)")), "/model/dropout");
  refused(test::file("", test::model(R"(, "end_of_word_suffix": "</w>")")), "/model/end_of_word_suffix");
}

TEST_F(TokenizerFile, ValuesThatContradictEachOther) {
  refused(test::file("", R"("model": {"vocab": {"a": 0}, "merges": ["a b"]})"), "/model/merges/0", "'b'", "not in the vocabulary");
  refused(test::file("", R"("model": {"vocab": {"a": 0}, "merges": ["aa"]})"), "/model/merges/0", "space");
  refused(test::file("", R"("model": {"vocab": {"a": -1}, "merges": []})"), "/model/vocab/a");
  refused(test::file("", R"("model": {"vocab": {}, "merges": []})"), "/model/vocab");
  refused(test::file("", test::model(R"(, "unk_token": "?")")), "/model/unk_token", "'?'");
  refused(test::file(R"("added_tokens": [)" + test::added("x", 1) + "]", test::model()), "/added_tokens/0/id");
  refused(test::file(R"("added_tokens": [)" + test::added("x", 7) + "," + test::added("x", 8) + "]", test::model()), "added twice");
  refused("[]", "expected an object");
}

TEST_F(TokenizerFile, WhatEndsADocument) {
  const auto json = test::file(R"("added_tokens": [)" + test::added("</s>", 7, "special") + "," + test::added("<end>", 9, "special") + "]",
                               test::model());
  EXPECT_EQ(read(json)->end_of_document(), 7);
  EXPECT_EQ(read(json)->vocabulary(), 10);
  EXPECT_EQ(read(json)->id_of("<end>"), 9);
  EXPECT_EQ(read(json)->id_of("abc"), 4);
  EXPECT_EQ(read(json)->id_of("abcd"), std::nullopt);
  folder_.write("tokenizer_config.json", R"({"eos_token": {"content": "<end>"}})");
  EXPECT_EQ(read(json)->end_of_document(), 9);
  EXPECT_EQ(read(test::file("", test::model()))->end_of_document(), std::nullopt);
}

TEST_F(TokenizerFile, TokensStandForBytes) {
  const auto plain = read(test::file(
      R"("added_tokens": [)" + test::added("</s>", 7, "special") + "," + test::added("<x>", 9, "normalized") + "]", test::model()));
  EXPECT_EQ(plain->bytes_of(4), "abc");
  EXPECT_EQ(plain->bytes_of(7), "");  // special
  EXPECT_EQ(plain->bytes_of(9), "<x>");
  EXPECT_EQ(plain->bytes_of(8), "");  // no token
  EXPECT_EQ(plain->bytes_of(-1), "");
  const auto fallback =
      read(test::file("", R"("model": {"byte_fallback": true, "vocab": {"a": 0, "<0xE2>": 1, "<0xe2>": 2, "\u2581b": 3}, "merges": []})"));
  EXPECT_EQ(fallback->bytes_of(1), "\xe2");
  EXPECT_EQ(fallback->bytes_of(2), "<0xe2>");
  EXPECT_EQ(fallback->bytes_of(3), " b");
  const auto spelled = read(test::file(R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
                                       R"("model": {"vocab": {"\u0120a": 0, "\u00e2": 1, "a": 2, "\u0120": 3}, "merges": []})"));
  EXPECT_EQ(spelled->bytes_of(0), " a");
  EXPECT_EQ(spelled->bytes_of(1), "\xe2");
}

}  // namespace
}  // namespace flotilla::tokenizer
