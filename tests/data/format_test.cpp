#include "flotilla/data/format.hpp"

#include "data/token_files.hpp"
#include "flotilla/data/token_file.hpp"

namespace flotilla::data {
namespace {

using namespace testing;

TEST(Format, SpellingsReadBack) {
  for (const auto& name : format_names()) EXPECT_EQ(to_string(parse_format(name)), name);
  EXPECT_EQ(format_names().front(), "auto");
  expect_contains(refusal([] { parse_format("numpy"); }), "raw-uint16");
}

TEST(DetectFormat, TellsEveryFormatByItsContent) {
  const TemporaryFolder folder;
  const auto tokens = some_tokens(100, 1000);
  EXPECT_EQ(detect_format(write(folder / "a.bin", llmc_bytes(tokens))), Format::llmc);
  EXPECT_EQ(detect_format(write(folder / "no_suffix", llmc_bytes(tokens))), Format::llmc);
  EXPECT_EQ(detect_format(write(folder / "tokens", npy_header(1, npy_dictionary("<u2", 3)) + elements<std::uint16_t>({1, 2, 3}))),
            Format::npy);
  EXPECT_EQ(detect_format(write(folder / "book.txt", "to be or not to be")), Format::text);
  EXPECT_EQ(detect_format(write(folder / "utf16.txt", std::string("a\0b\0", 4))), Format::text);
  EXPECT_EQ(detect_format(write(folder / "README", "text without a suffix")), Format::text);
}

TEST(DetectFormat, TakesMegatronByIndexTokensOrPrefix) {
  const TemporaryFolder folder;
  const auto bytes = megatron_bytes<std::uint16_t>(some_tokens(10, 1000), {4, 6}, 8);
  write(folder / "corpus.v2.idx", bytes.index);
  write(folder / "corpus.v2.bin", bytes.tokens);
  for (const auto* name : {"corpus.v2.idx", "corpus.v2.bin", "corpus.v2"})
    EXPECT_EQ(detect_format(folder / name), Format::megatron) << name;
}

TEST(DetectFormat, RefusesToGuessBareTokens) {
  const TemporaryFolder folder;
  const auto path = write(folder / "bare.bin", elements<std::uint16_t>(some_tokens(64, 50000)));
  const auto message = refusal([&] { detect_format(path); });
  expect_contains(message, path.string());
  expect_contains(message, "raw-uint16");
  expect_contains(message, "raw-uint32");
}

TEST(DetectFormat, LeavesBrokenFilesWithAPromisingSuffixToTheirReader) {
  const TemporaryFolder folder;
  EXPECT_EQ(detect_format(write(folder / "broken.npy", "not numpy")), Format::npy);
  EXPECT_EQ(detect_format(write(folder / "broken.idx", "not megatron")), Format::megatron);
}

TEST(Format, JsonIsNotTrainedOnAsText) {
  const TemporaryFolder folder;
  for (const auto* name : {"a.jsonl", "a.json"}) {
    const auto path = write(folder / name, "{\"text\": \"to be\"}\n");
    EXPECT_NE(refusal([&] { detect_format(path); }).find("--data.tokenizer FILE"), std::string::npos);
    EXPECT_EQ(TokenFile::open(path, Format::text).format(), Format::text) << "where it is meant";
  }
}

}  // namespace
}  // namespace flotilla::data
