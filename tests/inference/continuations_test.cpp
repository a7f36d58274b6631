// Contexts and continuations as tokens, and what is refused of them.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "flotilla/base/error.hpp"
#include "flotilla/inference/evaluate.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::inference {
namespace {

using tests::expect_refused;

class Continuations : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& content) const {
    const auto path = folder_ / "requests.jsonl";
    std::ofstream{path} << content;
    return path;
  }
  std::vector<Continuation> read(const std::string& content) { return read_continuations(file(content), codec_, 256); }

  tests::TemporaryFolder folder_;
  Codec codec_{{}, 256};
};

std::vector<std::int32_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

TEST_F(Continuations, WhiteSpaceBeforeGoesWithTheContinuation) {
  const auto list = read(R"({"context": "Two and ", "continuation": "two", "other": 1})"
                         "\n\n"
                         R"({"context": "a", "continuation": " b"})");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].context, bytes("Two and"));
  EXPECT_EQ(list[0].continuation, bytes(" two"));
  EXPECT_EQ(list[1].context, bytes("a"));
  EXPECT_EQ(list[1].continuation, bytes(" b"));
}

TEST_F(Continuations, MayBeTokens) {
  const auto list = read(R"({"context_tokens": [1, 2], "continuation_tokens": [3]})");
  EXPECT_EQ(list.at(0).context, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(list.at(0).continuation, (std::vector<std::int32_t>{3}));
}

TEST_F(Continuations, AreRefusedWithTheirLine) {
  expect_refused([&] { read("{\"context\": \"a\", \"continuation\": \"b\"}\n{\"context\": \"a\"}\n"); }, "requests.jsonl:2",
                 "continuation");
  expect_refused([&] { read(R"({"context": "", "continuation": "b"})"); }, "requests.jsonl:1", "empty context");
  expect_refused([&] { read(R"({"context": "a", "continuation": ""})"); }, "requests.jsonl:1", "no token");
  expect_refused([&] { read(R"({"context_tokens": [256], "continuation_tokens": [1]})"); }, "/context_tokens/0", "255");
  expect_refused([&] { read("\n"); }, "requests.jsonl", "no line");
  expect_refused([&] { length_for({{{1}, {2, 3, 4}}}, 2); }, "3 tokens", "holds 2");
}

/// Bytes changed, left out and said twice: a line is read or refused in one line, and nothing else happens.
TEST_F(Continuations, MayBeDamaged) {
  const std::string good = R"({"context": "Zw\u00f6lf \ud83d\ude00", "continuation": " b"})"
                           "\n"
                           R"({"context_tokens": [1, 255], "continuation_tokens": [3, 0]})"
                           "\n";
  std::mt19937 random{17};
  const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>{0, end - 1}(random); };
  int read_whole = 0, refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string content = good;
    for (auto left = below(4) + 1; left > 0; --left) {
      const auto at = below(content.size());
      switch (below(3)) {
        case 0: content[at] = static_cast<char>(below(256)); break;
        case 1: content.erase(at, below(8)); break;
        default: content.insert(at, content.substr(below(content.size()), below(12)));
      }
      if (content.empty()) content = "{";
    }
    try {
      read(content);
      ++read_whole;
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
      ASSERT_EQ(std::string{error.what()}.find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(read_whole, 100);
  EXPECT_GT(refused, 100);
}

TEST_F(Continuations, FitTheShortestPassThatHoldsThemAll) {
  EXPECT_EQ(length_for({{{1, 2}, {3}}, {{1}, {2}}}, 100), 2);
  EXPECT_EQ(length_for({{{1, 2, 3, 4, 5}, {6, 7}}}, 3), 3);
}

TEST(Codec, SpellsBytes) {
  Codec codec{{}, 256};
  EXPECT_EQ(codec.encode("a\xff"), (std::vector<std::int32_t>{'a', 255}));
  EXPECT_EQ(codec.bytes_of(255), "\xff");
  EXPECT_FALSE(codec.end_of_document());
  Codec small{{}, 100};
  expect_refused([&] { small.encode("x"); }, "token 120", "tokenizer");
}

TEST(Text, OfOneTokenSaysNothing) {
  const tests::TemporaryFolder folder;
  std::ofstream{folder / "one.txt"} << "a";
  Codec codec{{}, 256};
  expect_refused([&] { Text::open(folder / "one.txt", data::Format::automatic, codec); }, (folder / "one.txt").string(), "two or more");
}

/// Braces and keys are no part of what a model is asked for; the way to the texts is named.
TEST(Text, OfJsonHasToBeMadeTokensOf) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "chat.jsonl";
  std::ofstream{path} << "{\"text\": \"words\"}\n";
  Codec codec{{}, 256};
  expect_refused([&] { Text::open(path, data::Format::automatic, codec); }, "flotilla tokenize --tokenizer TOKENIZER.json " + path.string(),
                 "--evaluate.format text");
  EXPECT_EQ(Text::open(path, data::Format::text, codec).size(), 18);
}

}  // namespace
}  // namespace flotilla::inference
