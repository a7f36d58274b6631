#include "flotilla/ingest/tokenize.hpp"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <csignal>

#include "flotilla/data/token_file.hpp"
#include "flotilla/signals/stop_signals.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::ingest {
namespace {

using tests::content;
using tests::expect_contains;
using tests::expect_refused;

constexpr const char* tokenizer = R"({"added_tokens": [{"id": 4, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
  "normalized": false, "special": true}], "model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}})";

class Tokenize : public ::testing::Test {
 protected:
  TokenizeOptions options(std::vector<std::filesystem::path> inputs, const std::string& output = "out") const {
    TokenizeOptions options;
    options.tokenizer = tokenizer_;
    options.inputs = std::move(inputs);
    options.output = folder_ / output;
    options.threads = 2;
    return options;
  }
  std::vector<std::int32_t> tokens(const std::string& output = "out") const {
    const auto file = data::TokenFile::open(folder_ / (output + ".bin"));
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
    file.read(0, tokens, 5);
    file.scan(0, file.size(), 5);
    return tokens;
  }
  /// Some megabytes of documents of many lengths: several batches.
  std::string many_lines() const {
    std::string lines;
    for (int i = 0; lines.size() < 5'000'000; ++i)
      lines += R"({"id": 1, "text": ")" + std::string(static_cast<std::size_t>(i * 37 % 20000), i % 3 == 0 ? 'a' : 'b') + "ab\"}\n";
    return lines;
  }

  static bool always(const TokenizeProgress&) { return true; }

  const tests::TemporaryFolder folder_;
  const std::string tokenizer_ = folder_.write("tokenizer.json", tokenizer);
};

TEST_F(Tokenize, DocumentsOfJsonLinesAndOfTextFiles) {
  const auto lines = folder_.write("some.jsonl", "{\"text\": \"ab\"}\n\n{\"text\": \"\", \"more\": [1]}\r\n{\"text\": \"b\\u0061\"}");
  const auto text = folder_.write("some.txt", "aab\nx\xff");
  auto o = options({lines, text});
  o.append_eod = true;
  const auto report = tokenize(o, always);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(tokens(), (std::vector<std::int32_t>{3, 4, 2, 1, 4, 1, 3, 0, 0, 0, 4}));
  EXPECT_EQ(report.documents, 3);
  EXPECT_EQ(report.empty_documents, 1);
  EXPECT_EQ(report.tokens, 11);
  EXPECT_EQ(report.repaired_sequences, 1);
  EXPECT_EQ(report.token_bytes, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.partial"));
}

TEST_F(Tokenize, AnotherFieldAndAnotherEnd) {
  auto o = options({folder_.write("some.jsonl", R"({"body": "ab", "text": 1})")});
  o.field = "body";
  o.append_eod = true;
  o.eod = "b";
  tokenize(o, always);
  EXPECT_EQ(tokens(), (std::vector<std::int32_t>{3, 2}));
}

/// Which tokens count, as "1" and "0".
std::string counted(const std::filesystem::path& tokens) {
  const auto file = data::TokenFile::open(tokens);
  std::string all;
  for (std::int64_t i = 0; i < file.size(); ++i) all += file.mask() == nullptr || file.mask()->counts(i) ? '1' : '0';
  return all;
}

TEST_F(Tokenize, PromptsDoNotCount) {
  auto o = options({folder_.write("some.jsonl", R"({"prompt": "aa", "completion": "ba"}
{"text": "ab", "prompt": 5}
{"prompt": "", "completion": "b"}
{"completion": "", "prompt": "b"}
{"prompt": "ba", "completion": "ba"}
{"prompt": "", "completion": ""})")});
  o.append_eod = true;
  const auto report = tokenize(o, always);
  EXPECT_EQ(tokens(), (std::vector<std::int32_t>{1, 3, 1, 4, 3, 4, 2, 4, 2, 4, 2, 3, 1, 4}));
  EXPECT_EQ(counted(folder_ / "out.bin"),
            "0111"
            "11"
            "11"
            "01"
            "0111")
      << "a token that holds a part of the completion counts";
  EXPECT_EQ(report.uncounted_tokens, 3);
  EXPECT_EQ(report.empty_documents, 1);
}

/// What the assistant says counts, and the end of the document does not; it is not written twice.
TEST_F(Tokenize, MessagesAreWrittenByTheChatTemplate) {
  const auto lines =
      folder_.write("chat.jsonl", R"({"messages": [{"role": "user", "content": "aa"}, {"role": "assistant", "content": "bab"}]}
{"messages": [{"role": "user", "content": "b"}]}
{"text": "ab"})");
  auto o = options({lines});
  o.append_eod = true;
  expect_refused([&] { tokenize(o, always); }, "chat.jsonl:1", "messages need a chat template");
  folder_.write(
      "tokenizer_config.json",
      R"({"eos_token": {"content": "</s>"}, "chat_template": "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"})");
  tokenize(o, always);
  EXPECT_EQ(tokens(), (std::vector<std::int32_t>{1, 3, 3, 4, 2, 4, 3, 4}));
  EXPECT_EQ(counted(folder_ / "out.bin"),
            "0111"
            "00"
            "11");
  auto named = options({lines}, "named");
  named.chat_template = folder_.write("other.jinja",
                                      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content[1:] }}{% "
                                      "endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}");
  tokenize(named, always);
  EXPECT_EQ(tokens("named"), (std::vector<std::int32_t>{1, 1, 3, 2, 3}));
  EXPECT_EQ(counted(folder_ / "named.bin"), "00101") << "a message that only generates a part; nothing of a prompt alone";
}

/// What people have: ShareGPT's turns and Alpaca's instructions are conversations where a template says how those are written; else an
/// instruction has Alpaca's own prompt.
TEST_F(Tokenize, SharedConversationsAndInstructionsAreRead) {
  const auto shared =
      folder_.write("shared.jsonl",
                    R"({"id": 7, "system": "b", "conversations": [{"from": "human", "value": "aa"}, {"from": "gpt", "value": "ab"}]}
{"conversations": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "a"}]})");
  const auto alpaca = folder_.write("alpaca.jsonl", R"({"instruction": "a", "input": "b", "output": "ab"}
{"instruction": "a", "input": "", "output": "b"})");
  tokenize(options({alpaca}, "plain"), always);
  const auto plain = tokens("plain");
  EXPECT_EQ(std::vector(plain.end() - 1, plain.end()), std::vector<std::int32_t>{2});
  const auto which = counted(folder_ / "plain.bin");
  EXPECT_EQ(std::ranges::count(which, '1'), 2) << "the outputs alone";
  expect_refused([&] { tokenize(options({shared}, "shared"), always); }, "shared.jsonl:1", "messages need a chat template");
  folder_.write(
      "tokenizer_config.json",
      R"({"chat_template": "{% for m in messages %}{% generation %}{{ m.content | replace('\n', '') if m.role == 'assistant' else '' }}{% endgeneration %}{{ m.content | replace('\n', '') if m.role != 'assistant' else '' }}{% endfor %}"})");
  tokenize(options({shared, alpaca}), always);
  EXPECT_EQ(tokens(), (std::vector<std::int32_t>{2, 1, 1, 3, 2, 1, 3, 3, 3}));
  EXPECT_EQ(counted(folder_ / "out.bin"), "000101011");
  const auto odd = folder_.write("odd.jsonl", R"({"conversations": [{"from": "narrator", "value": "aa"}]})");
  expect_refused([&] { tokenize(options({odd}, "odd"), always); }, "odd.jsonl:1: /conversations/0/from: expected human, gpt", "'narrator'");
}

TEST_F(Tokenize, AChatTemplateThatIsNotUnderstoodMattersToMessagesAlone) {
  folder_.write("tokenizer_config.json", R"({"chat_template": "{{ messages | nosuch }}"})");
  tokenize(options({folder_.write("plain.jsonl", R"({"text": "ab"})")}), always);
  const auto chat = folder_.write("chat.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})");
  expect_refused([&] { tokenize(options({chat}, "a"), always); }, "chat.jsonl:1", "tokenizer_config.json: chat_template:1:15",
                 "the filter 'nosuch' is not supported");
  folder_.write("tokenizer_config.json", R"({"chat_template": "{% include 'x' %}"})");
  expect_refused([&] { tokenize(options({chat}, "a"), always); }, "chat.jsonl:1", "tokenizer_config.json: chat_template:1:4",
                 "'include' is not supported");
  auto named = options({chat}, "a");
  named.chat_template = folder_ / "tokenizer_config.json";
  expect_refused([&] { tokenize(named, always); }, "tokenizer_config.json: chat_template:1:4");
  auto field = options({folder_.write("field.jsonl", R"({"talk": [{"role": "user"}], "text": "ab"})")}, "a");
  field.field = "talk";
  folder_.write("tokenizer_config.json", R"({"chat_template": "{{ raise_exception('no ' + messages[0].role) }}"})");
  expect_refused([&] { tokenize(field, always); }, "field.jsonl:1", "the template refuses these messages: no user");
}

TEST_F(Tokenize, WhereAllTokensCountThereIsNoMask) {
  tokenize(options({folder_.write("some.jsonl", R"({"prompt": "", "completion": "b"})")}), always);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.mask"));
  folder_.write("other.mask", "another's");
  expect_refused([&] { tokenize(options({folder_.write("some.txt", "ab")}, "other"), always); }, "other.mask", "exists already");
}

TEST_F(Tokenize, TheSameMaskOnAnyThreadsAndStops) {
  std::string lines;
  for (int i = 0; lines.size() < 4'000'000; ++i)
    lines += R"({"prompt": ")" + std::string(static_cast<std::size_t>(i * 37 % 9000), 'a') + R"(", "completion": ")" +
             std::string(static_cast<std::size_t>(i * 53 % 7000), 'b') + "\"}\n";
  const std::filesystem::path file = folder_.write("many.jsonl", lines);
  auto one = options({file, file}, "one");
  one.threads = 1;
  const auto report = tokenize(one, always);
  EXPECT_GT(report.uncounted_tokens, 1'000'000);
  int calls = 0, starts = 0;
  const auto two_batches = [&](const TokenizeProgress&) { return ++calls % 2 != 0; };
  while (!tokenize(options({file, file}), two_batches).finished) ASSERT_LT(++starts, 100);
  EXPECT_GT(starts, 2);
  for (const std::string suffix : {".bin", ".idx", ".mask"})
    EXPECT_EQ(content(folder_ / ("out" + suffix)), content(folder_ / ("one" + suffix)));
  const auto mask = data::LossMask::open(folder_ / "out.mask", report.tokens);
  EXPECT_EQ(mask.count(0, report.tokens), report.tokens - report.uncounted_tokens);
}

TEST_F(Tokenize, TheSameBytesOnAnyNumberOfThreads) {
  const std::filesystem::path lines = folder_.write("many.jsonl", many_lines());
  std::string bin, idx;
  for (const int threads : {1, 2, 7}) {
    auto o = options({lines, lines}, "out-" + std::to_string(threads));
    o.threads = threads;
    tokenize(o, always);
    const auto name = o.output.string();
    if (threads == 1) bin = content(name + ".bin"), idx = content(name + ".idx");
    EXPECT_EQ(content(name + ".bin"), bin);
    EXPECT_EQ(content(name + ".idx"), idx);
  }
  EXPECT_GT(bin.size(), 1'000'000u);
}

TEST_F(Tokenize, GoesOnWhereItWasStopped) {
  const std::filesystem::path lines = folder_.write("many.jsonl", many_lines()), text = folder_.write("text.txt", many_lines());
  tokenize(options({lines, text}, "whole"), always);
  int calls = 0, starts = 0;
  const auto two_batches = [&](const TokenizeProgress&) { return ++calls % 2 != 0; };
  while (!tokenize(options({lines, text}), two_batches).finished) ASSERT_LT(++starts, 100);
  EXPECT_GT(starts, 2);
  EXPECT_EQ(content(folder_ / "out.bin"), content(folder_ / "whole.bin"));
  EXPECT_EQ(content(folder_ / "out.idx"), content(folder_ / "whole.idx"));
}

TEST_F(Tokenize, ASignalEndsWhatItsPatternsAndTemplatesDo) {
  std::string normalizing = tokenizer;
  const std::string from = R"("normalized": false)";
  normalizing.replace(normalizing.find(from), from.size(), R"("normalized": true)");
  normalizing.insert(1, R"("normalizer": {"type": "NFC"}, )");
  auto o = options({folder_.write("some.jsonl", many_lines())});
  o.tokenizer = folder_.write("normalizing.json", normalizing);
  {
    const signals::StopSignals stop;
    const auto when_loaded = [&](const TokenizeProgress&) { return std::raise(SIGTERM) == 0; };
    EXPECT_FALSE(tokenize(o, when_loaded).finished);
    EXPECT_FALSE(tokenize(o, always).finished);  // while the tokenizer is loaded
  }
  EXPECT_TRUE(tokenize(o, always).finished);
}

TEST_F(Tokenize, WhatWasBegunOtherwiseIsRefused) {
  const std::filesystem::path lines = folder_.write("many.jsonl", many_lines());
  const auto stop = [](const TokenizeProgress&) { return false; };
  EXPECT_FALSE(tokenize(options({lines}), stop).finished);
  auto other = options({lines});
  other.append_eod = true;
  expect_refused([&] { tokenize(other, always); }, "out.partial", "other");
  std::filesystem::resize_file(folder_ / "out.partial/tokens", 1);
  expect_refused([&] { tokenize(options({lines}), always); }, "tokens", "shorter");
}

TEST_F(Tokenize, CompressedFilesAreReadAsTheirText) {
  const auto text = many_lines();
  const auto gz = (folder_ / "many.jsonl.gz").string();
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> out{gzopen(gz.c_str(), "wb"), gzclose};
  gzwrite(out.get(), text.data(), static_cast<unsigned>(text.size()));
  gzflush(out.get(), Z_FINISH);
  std::string frame(ZSTD_compressBound(text.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), text.data(), text.size(), 1));
  const auto zst = folder_.write("many.jsonl.zst", frame + frame);
  const auto lines = folder_.write("many.jsonl", text);
  tokenize(options({lines, lines, lines}, "plain"), always);
  tokenize(options({gz, zst}), always);
  EXPECT_EQ(content(folder_ / "out.bin"), content(folder_ / "plain.bin"));
  const auto cut = folder_.write("cut.jsonl.zst", frame.substr(0, frame.size() / 2));
  expect_refused([&] { tokenize(options({cut}, "cut"), always); }, "cut.jsonl.zst", "cut");
  const auto cut_gz = folder_.write("cut.jsonl.gz", content(gz).substr(0, 3000));
  expect_refused([&] { tokenize(options({cut_gz}, "cut-gz"), always); }, "cut.jsonl.gz", "cut");
}

TEST_F(Tokenize, ALongTextFileIsOneDocument) {
  std::string words(3'000'000, 'a');
  words.append("\n").append(6'000'000, 'b');
  const auto text = folder_.write("long.txt", words);
  const auto report = tokenize(options({text}), always);
  EXPECT_EQ(report.documents, 1);
  EXPECT_EQ(report.sequences, 3);
  EXPECT_EQ(report.tokens, 9'000'001);
}

TEST_F(Tokenize, HostileInputsAreNamed) {
  const auto refuse = [&](const std::string& name, const std::string& bytes, const std::string& words) {
    const std::filesystem::path file = folder_.write(name, bytes);
    expect_refused([&] { tokenize(options({file}, name), always); }, name, words);
    EXPECT_FALSE(std::filesystem::exists(folder_ / (name + ".partial"))) << "nothing can go on from it";
  };
  refuse("a.jsonl", "{\"text\": \"a\"}\n{\"text\": 5}\n", "a.jsonl:2: /text");
  refuse("b.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"a\"}\n",
         "b.jsonl:2: expected the key 'text', 'messages', 'conversations', or 'prompt' and 'completion', or 'instruction'");
  refuse("p.jsonl", R"({"prompt": "a", "completion": 5})", "p.jsonl:1: /completion");
  refuse("q.jsonl", R"({"prompt": "a"})", "expected the key 'text'");
  refuse("c.jsonl", "{\"text\": \"a\n", "not JSON");
  refuse("d.jsonl", "{\"text\": \"\xff\"}", "not JSON");
  refuse("e.jsonl", "{\"text\": \"\\ud800\"}", "not JSON");
  refuse("f.txt", "", "no text");
  refuse("n.jsonl", R"({"prompt": "ab", "completion": ""})", "none of 1 tokens counts in the loss");
  const auto there = folder_.write("there.txt", "ab");
  tests::expect_absent([&] { tokenize(options({there, folder_ / "absent.txt"}, "absent"), always); }, "absent.txt", "no such file");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "absent.partial")) << "nothing is begun";
  expect_refused([&] { tokenize(options({folder_}, "folder"), always); }, "regular file");
  expect_refused([&] { tokenize(options({folder_.write("g.jsonl", std::string(66 << 20, ' '))}, "g"), always); }, "g.jsonl:1",
                 "a line of more than");
}

/// The program was ended between the two renames that put a pair in place.
/// One line of each kind among many: refused with the way out, left out, or repaired, and counted with their places on any threads.
TEST_F(Tokenize, BadLinesAreRefusedSkippedOrRepaired) {
  const std::string good = R"({"text": "ab"})"
                           "\n";
  const std::pair<std::string, std::string> bad[]{{R"({"text": "a\ud83d b", "k": "\ud83d\ude00"})", "lone surrogate"},
                                                  {R"({"text": "b", "meta": [NaN, -Infinity]})", "NaN"},
                                                  {R"({"text": null})", "null text"},
                                                  {"{\"text\": \"a\xff\"}", "not UTF-8"},
                                                  {R"({"text": "a)", "not JSON"},
                                                  {R"({"txt": "a"})", "no document"}};
  std::string all = good;
  for (const auto& [line, reason] : bad) {
    const auto file = folder_.write("one.jsonl", good + line + "\n" + good);
    const bool mends = reason != "not JSON" && reason != "no document";
    expect_refused([&] { tokenize(options({file}, "one"), always); }, "one.jsonl:2", "--bad-lines skip leaves such lines out",
                   mends ? ", repair mends this one" : "(flotilla train: --data.bad-lines)");
    auto o = options({file}, "repaired-" + reason);
    o.bad_lines = BadLines::repair;
    if (mends)
      EXPECT_EQ(tokenize(o, always).bad_lines.by_reason, (std::map<std::string, std::int64_t>{{reason, 1}}));
    else
      expect_refused([&] { tokenize(o, always); }, "one.jsonl:2", "--bad-lines skip");
    for (int i = 0; i < 3; ++i) all += line + "\n";
    all += good;
  }
  for (const int threads : {1, 3}) {
    auto o = options({folder_.write("all.jsonl", all)}, "skipped-" + std::to_string(threads));
    o.bad_lines = BadLines::skip;
    o.threads = threads;
    const auto report = tokenize(o, always);
    EXPECT_EQ(report.documents, 7);
    EXPECT_EQ(report.bad_lines.total(), 18);
    for (const auto& [line, reason] : bad) EXPECT_EQ(report.bad_lines.by_reason.at(reason), 3) << reason;
    ASSERT_EQ(report.bad_lines.places.size(), 10u);
    EXPECT_NE(report.bad_lines.places[9].find("all.jsonl:14"), std::string::npos) << report.bad_lines.places[9];
  }
  EXPECT_EQ(tokens("repaired-NaN"), (std::vector<std::int32_t>{3, 2, 3}));
  EXPECT_EQ(tokens("repaired-null text"), (std::vector<std::int32_t>{3, 3}));
}

/// A bad line at the end of hours of work: what is done stays, whether the line is then left out, or mended.
TEST_F(Tokenize, ABadLineLosesNoWork) {
  const std::string good = many_lines();
  const auto first = folder_.write("first.jsonl", good), second = folder_.write("second.jsonl", good + "{\"text\": NaN}\n");
  expect_refused(
      [&] {
        tokenize(options({first, second}), always);
      },
      "second.jsonl:", "what is done is kept in", "once the line is mended");
  folder_.write("second.jsonl", good + "{\"text\": \"b\"}\n");
  std::int64_t least = 0;
  const auto watch = [&](const TokenizeProgress& progress) {
    if (least == 0) least = progress.tokens;
    return true;
  };
  tokenize(options({first, second}), watch);
  tokenize(options({first, second}, "whole"), always);
  EXPECT_EQ(content(folder_ / "out.bin"), content(folder_ / "whole.bin"));
  EXPECT_EQ(content(folder_ / "out.idx"), content(folder_ / "whole.idx"));
  EXPECT_GT(least, static_cast<std::int64_t>(tokens("whole").size()) / 2) << "the first file was done";
  folder_.write("second.jsonl", good + "{\"text\": NaN}\n");
  expect_refused([&] { tokenize(options({first, second}, "skipped"), always); }, "second.jsonl:", "what is done is kept in");
  auto skips = options({first, second}, "skipped");
  skips.bad_lines = BadLines::skip;
  least = 0;
  tokenize(skips, watch);
  EXPECT_GT(least, static_cast<std::int64_t>(tokens("whole").size()) * 3 / 4);
}

TEST_F(Tokenize, APairThatIsHalfInPlaceIsCompleted) {
  const std::filesystem::path text = folder_.write("some.txt", "aab");
  tokenize(options({text}, "whole"), always);
  const auto stop = [](const TokenizeProgress&) { return false; };
  EXPECT_FALSE(tokenize(options({text}), stop).finished);
  std::filesystem::copy(folder_ / "whole.idx", folder_ / "out.partial/index");
  std::filesystem::rename(folder_ / "out.partial/tokens", folder_ / "out.bin");
  data::write_loss_mask(folder_ / "out.partial/mask", 2, [](data::TokenRun&) { return false; });
  auto other = options({text});
  other.append_eod = true;
  expect_refused([&] { tokenize(other, always); }, "out.partial", "other");
  const auto report = tokenize(options({text}), always);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.tokens, 2);
  EXPECT_EQ(content(folder_ / "out.idx"), content(folder_ / "whole.idx"));
  EXPECT_EQ(content(folder_ / "out.bin"), content(folder_ / "whole.bin"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out.mask"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.partial"));
}

TEST_F(Tokenize, OneProcessAtATimeWritesAnOutput) {
  const std::filesystem::path lines = folder_.write("many.jsonl", many_lines());
  int refused = 0;
  tokenize(options({lines}), [&](const TokenizeProgress&) {
    try {
      tokenize(options({lines}), always);
    } catch (const OutputBusy&) {
      ++refused;
    }
    return true;
  });
  EXPECT_GT(refused, 1) << "each time";
}

TEST_F(Tokenize, AnOutputThatExistsStays) {
  const auto text = folder_.write("some.txt", "ab");
  folder_.write("out.idx", "mine");
  expect_refused([&] { tokenize(options({text}), always); }, "out.idx", "exists already");
  EXPECT_EQ(content(folder_ / "out.idx"), "mine");
}

TEST_F(Tokenize, AFolderThatHoldsAnythingElseIsSomebodys) {
  const auto text = folder_.write("some.txt", "ab"), empty = folder_.write("empty.jsonl", "");
  std::filesystem::create_directories(folder_ / "out.partial" / "photos");
  folder_.write("out.partial/photos/a", "dear");
  for (const auto& input : {text, empty}) expect_refused([&] { tokenize(options({input}), always); }, "out.partial", "photos");
  EXPECT_EQ(content(folder_ / "out.partial/photos/a"), "dear");
}

TEST_F(Tokenize, APlantedLinkLeadsToNoFile) {
  const auto lines = folder_.write("many.jsonl", many_lines()), precious = folder_.write("precious", "many bytes of somebody's");
  int asked = 0;
  EXPECT_FALSE(tokenize(options({lines}), [&](const auto&) { return ++asked < 3; }).finished);
  ASSERT_TRUE(std::filesystem::exists(folder_ / "out.partial/state.json"));
  for (const bool hard : {false, true}) {
    std::filesystem::remove(folder_ / "out.partial/tokens");
    if (hard)
      std::filesystem::create_hard_link(precious, folder_ / "out.partial/tokens");
    else
      std::filesystem::create_symlink(precious, folder_ / "out.partial/tokens");
    EXPECT_THROW(tokenize(options({lines}), always), Error);
    EXPECT_EQ(content(precious), "many bytes of somebody's");
  }
}

}  // namespace
}  // namespace flotilla::ingest
