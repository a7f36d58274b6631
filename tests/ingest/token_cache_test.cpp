// Text of a job is tokenized once.
#include "flotilla/ingest/token_cache.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <zlib.h>

#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "flotilla/data/token_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::ingest {
namespace {

using Paths = std::vector<std::filesystem::path>;
using tests::expect_refused;

constexpr const char* small_tokenizer =
    R"({"added_tokens": [{"id": 4, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
  "normalized": false, "special": true}], "model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}})";

class TokenCache : public ::testing::Test {
 protected:
  TokenCache() {
    options_.tokenizer = tokenizer_;
    options_.threads = 2;
    events_.begins = [this](const auto&) { ++made_; };
    events_.waits = [this](const auto&) { ++waited_; };
    events_.go_on = [](const auto&) { return true; };
    events_.ends = [](const auto&, const auto&) {};
  }
  Paths cached(const Paths& inputs) const { return cached_tokens(options_, inputs, events_).value(); }
  std::vector<std::int32_t> tokens(const std::filesystem::path& path) const {
    const auto file = data::TokenFile::open(path);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
    file.read(0, tokens, 5);
    return tokens;
  }
  std::string many_lines() const {
    std::string lines;
    for (int i = 0; lines.size() < 6'000'000; ++i)
      lines += "{\"text\": \"" + std::string(static_cast<std::size_t>(i * 37 % 2000), 'a') + "\"}\n";
    return lines;
  }

  const tests::TemporaryFolder folder_;
  const std::filesystem::path tokenizer_ = folder_.write("tokenizer.json", small_tokenizer);
  CacheOptions options_;
  CacheEvents events_;
  int made_ = 0, waited_ = 0;
};

TEST_F(TokenCache, HoldsTheTokensOfTextAndLeavesTokenFilesAlone) {
  const std::filesystem::path lines = folder_.write("some.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"b\"}"),
                              plain = folder_.write("some.txt", "aab");
  const std::filesystem::path packed = folder_ / "packed.gz";
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> out{gzopen(packed.c_str(), "wb"), gzclose};
  gzwrite(out.get(), "ba", 2);
  gzflush(out.get(), Z_FINISH);
  const auto first = cached({lines, plain, packed});
  EXPECT_EQ(tokens(first[0]), (std::vector<std::int32_t>{3, 4, 2, 4}));
  EXPECT_EQ(tokens(first[1]), (std::vector<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(tokens(first[2]), (std::vector<std::int32_t>{2, 1, 4}));
  EXPECT_EQ(first[0].parent_path(), folder_ / "flotilla-tokens");
  EXPECT_EQ(cached({first[0], lines}), (Paths{first[0], first[0]})) << "tokens are no text";
  EXPECT_EQ(made_, 3) << "once each";
}

TEST_F(TokenCache, WhatSomebodyElseFilledIsNotTrainedOn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::filesystem::path text = folder_.write("some.txt", "aab");
  const auto index = cached({text})[0];
  ASSERT_EQ(::chown(index.c_str(), 12345, 12345), 0);
  expect_refused([&] { cached({text}); }, index.filename().string(), "made by user 12345");
  ASSERT_EQ(::chown(text.c_str(), 12345, 12345), 0);
  EXPECT_EQ(cached({text}), Paths{index}) << "who may change the text may have filled it";
}

TEST_F(TokenCache, EveryThingThatChangesTokensIsPartOfTheName) {
  const std::filesystem::path lines = folder_.write("some.jsonl", R"({"text": "ab", "more": "b"})");
  const auto first = cached({lines})[0];
  auto names = std::set{first};
  const auto is_new = [&] { return names.insert(cached({lines})[0]).second; };
  EXPECT_FALSE(is_new());
  options_.field = "more";
  EXPECT_TRUE(is_new());
  options_.eod = "b";
  EXPECT_TRUE(is_new());
  folder_.write("tokenizer.json", std::string{small_tokenizer} + "\n");
  EXPECT_TRUE(is_new());
  folder_.write("some.jsonl", R"({"text": "ab", "more": "a"})");
  EXPECT_TRUE(is_new());
  std::filesystem::last_write_time(lines, std::filesystem::last_write_time(lines) + std::chrono::seconds{1});
  EXPECT_TRUE(is_new()) << "as after an edit between the sampled blocks";
  const auto before = cached({lines})[0].filename(), moved = folder_ / "elsewhere";
  std::filesystem::create_directory(moved);
  std::filesystem::rename(lines, moved / "some.jsonl");
  EXPECT_EQ(cached({moved / "some.jsonl"})[0].filename(), before);
}

TEST_F(TokenCache, IsWhereItShouldBe) {
  const std::filesystem::path lines = folder_.write("some.jsonl", "{\"text\": \"ab\"}");
  options_.folder = folder_ / "my/cache";
  EXPECT_EQ(cached({lines})[0].parent_path(), folder_ / "my/cache");
  folder_.write("flotilla-tokens", "a file");
  options_.folder.clear();
  expect_refused([&] { cached({lines}); }, "flotilla-tokens", "data.cache");
}

TEST_F(TokenCache, StopsAndGoesOn) {
  const std::filesystem::path lines = folder_.write("many.jsonl", many_lines());
  int calls = 0;
  events_.go_on = [&](const TokenizeProgress&) { return ++calls < 3; };
  EXPECT_FALSE(cached_tokens(options_, {lines}, events_));
  std::int64_t first_seen = 0;
  events_.go_on = [&](const TokenizeProgress& progress) {
    if (first_seen == 0) first_seen = progress.documents;
    return true;
  };
  const auto resumed = cached({lines})[0];
  EXPECT_GT(first_seen, 1000) << "it went on";
  options_.folder = folder_ / "other";
  EXPECT_EQ(tests::content(resumed), tests::content(cached({lines})[0]));
}

/// Two jobs that want the same tokens at once, and one of them is killed.
TEST_F(TokenCache, ProcessesMakeAnEntryOnceAndSurviveEachOther) {
  const std::filesystem::path lines = folder_.write("many.jsonl", many_lines());
  const auto begun = folder_ / "begun";
  const pid_t other = ::fork();
  if (other == 0) {
    events_.go_on = [&](const TokenizeProgress&) {
      std::ofstream{begun} << "now";
      std::this_thread::sleep_for(std::chrono::seconds{60});
      return true;
    };
    cached_tokens(options_, {lines}, events_);
    ::_exit(1);
  }
  while (!std::filesystem::exists(begun)) std::this_thread::sleep_for(std::chrono::milliseconds{5});
  events_.go_on = [&](const TokenizeProgress&) {
    if (waited_ == 1) ::kill(other, SIGKILL);
    return true;
  };
  const auto mine = cached({lines})[0];
  EXPECT_EQ(waited_, 1);
  EXPECT_EQ(made_, 1);
  int status = 0;
  EXPECT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_TRUE(WIFSIGNALED(status));
  options_.folder = folder_ / "other";
  EXPECT_EQ(tests::content(mine), tests::content(cached({lines})[0]));
}

TEST_F(TokenCache, HostileInputsLeaveNothing) {
  const std::filesystem::path bad = folder_.write("bad.jsonl", "{\"text\": 5}");
  expect_refused([&] { cached({bad}); }, "bad.jsonl:1: /text");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "flotilla-tokens"));
  tests::expect_absent([&] { cached({folder_ / "absent.jsonl"}); }, "absent.jsonl");
  expect_refused([&] { cached({folder_.path()}); }, "is a folder");
  expect_refused([&] { cached({folder_.write("empty.txt", "")}); }, "empty.txt");
}

}  // namespace
}  // namespace flotilla::ingest
