#include "flotilla/data/token_file.hpp"

#include <thread>

#include "data/token_files.hpp"

namespace flotilla::data {
namespace {

using namespace testing;

std::vector<std::int64_t> read_all(const TokenFile& file, int vocabulary = 1 << 30) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
  file.read(0, tokens, vocabulary);
  return {tokens.begin(), tokens.end()};
}

TEST(TokenFile, ReadsTextAsBytes) {
  const TemporaryFolder folder;
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const auto file = TokenFile::open(write(folder / "all.txt", all));
  EXPECT_EQ(file.format(), Format::text);
  ASSERT_EQ(file.size(), 256);
  const auto tokens = read_all(file, 256);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(tokens[static_cast<std::size_t>(byte)], byte);
}

TEST(TokenFile, ReadsLlmc) {
  const TemporaryFolder folder;
  const auto tokens = some_tokens(1000, 65536);
  const auto file = TokenFile::open(write(folder / "a.bin", llmc_bytes(tokens)));
  EXPECT_EQ(file.format(), Format::llmc);
  EXPECT_EQ(read_all(file), tokens);
}

TEST(TokenFile, ReadsRaw) {
  const TemporaryFolder folder;
  const auto small = some_tokens(333, 65536), large = some_tokens(333, 1 << 30);
  EXPECT_EQ(read_all(TokenFile::open(write(folder / "a.bin", elements<std::uint16_t>(small)), Format::raw_uint16)), small);
  EXPECT_EQ(read_all(TokenFile::open(write(folder / "b.bin", elements<std::uint32_t>(large)), Format::raw_uint32)), large);
}

template <class T>
void expect_npy_reads(const std::string& descr, std::int64_t limit) {
  const TemporaryFolder folder;
  const auto tokens = some_tokens(257, limit);
  for (int major = 1; major <= 3; ++major) {
    const auto path = write(folder / "a.npy", npy_header(major, npy_dictionary(descr, tokens.size())) + elements<T>(tokens));
    const auto file = TokenFile::open(path);
    EXPECT_EQ(file.format(), Format::npy);
    EXPECT_EQ(read_all(file), tokens) << descr << " in version " << major;
  }
}

TEST(TokenFile, ReadsEveryIntegerTypeOfNumpyInEveryVersion) {
  expect_npy_reads<std::uint8_t>("|u1", 256);
  expect_npy_reads<std::int8_t>("|i1", 128);
  expect_npy_reads<std::uint16_t>("<u2", 65536);
  expect_npy_reads<std::int16_t>("<i2", 32768);
  expect_npy_reads<std::uint32_t>("<u4", 1 << 30);
  expect_npy_reads<std::int32_t>("<i4", 1 << 30);
  expect_npy_reads<std::uint64_t>("<u8", 1 << 30);
  expect_npy_reads<std::int64_t>("<i8", 1 << 30);
}

TEST(TokenFile, ReadsNumpyHeadersInAnyLayout) {
  const TemporaryFolder folder;
  const auto data = elements<std::uint16_t>({5, 6, 7});
  for (const auto* dictionary :
       {"{\"shape\":(3,),\"descr\":\"<u2\",\"fortran_order\":False}", "{ 'fortran_order' : False ,'shape' : ( 3 , ) , 'descr' : '<u2' }",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (3), }"}) {
    EXPECT_EQ(read_all(TokenFile::open(write(folder / "a.npy", npy_header(1, dictionary) + data))), (std::vector<std::int64_t>{5, 6, 7}));
  }
}

template <class T>
void expect_megatron_reads(int code, std::int64_t limit) {
  const TemporaryFolder folder;
  const auto tokens = some_tokens(60, limit);
  const auto bytes = megatron_bytes<T>(tokens, {10, 0, 30, 20}, code);
  write(folder / "c.idx", bytes.index);
  write(folder / "c.bin", bytes.tokens);
  for (const auto* name : {"c.idx", "c.bin", "c"}) {
    const auto file = TokenFile::open(folder / name, Format::megatron);
    EXPECT_EQ(file.path(), folder / "c.bin");
    EXPECT_EQ(read_all(file), tokens) << name << ", code " << code;
    EXPECT_NO_THROW(file.scan(0, file.size(), 1 << 30));
  }
}

TEST(TokenFile, ReadsEveryIntegerTypeOfMegatron) {
  expect_megatron_reads<std::uint8_t>(1, 256);
  expect_megatron_reads<std::int8_t>(2, 128);
  expect_megatron_reads<std::int16_t>(3, 32768);
  expect_megatron_reads<std::int32_t>(4, 1 << 30);
  expect_megatron_reads<std::int64_t>(5, 1 << 30);
  expect_megatron_reads<std::uint16_t>(8, 65536);
}

TEST(TokenFile, ReadsAnyRange) {
  const TemporaryFolder folder;
  const auto tokens = some_tokens(100, 65536);
  const auto file = TokenFile::open(write(folder / "a.bin", llmc_bytes(tokens)));
  for (std::size_t first = 0; first <= tokens.size(); first += 7) {
    for (std::size_t count = 0; first + count <= tokens.size(); count += 11) {
      std::vector<std::int32_t> part(count);
      file.read(static_cast<std::int64_t>(first), part, 65536);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(part[i], tokens[first + i]);
    }
  }
}

TEST(TokenFile, NamesTheByteOfATokenOutsideTheVocabulary) {
  const TemporaryFolder folder;
  auto tokens = some_tokens(50000, 1000);
  tokens[40000] = 1000;
  const auto file = TokenFile::open(write(folder / "a.bin", llmc_bytes(tokens)));
  std::vector<std::int32_t> part(3);
  EXPECT_NO_THROW(file.read(39997, part, 1000));
  const auto message = refusal([&] { file.read(39998, part, 1000); });
  expect_contains(message, file.path().string() + ": byte 81024: token 1000");
  expect_contains(message, "0 to 999");
  EXPECT_EQ(refusal([&] { file.scan(0, file.size(), 1000); }), message);
  EXPECT_NO_THROW(file.scan(40001, file.size(), 1000));
  EXPECT_NO_THROW(file.scan(0, file.size(), 1001));
}

TEST(TokenFile, RefusesNegativeAndHugeTokens) {
  const TemporaryFolder folder;
  const auto first_of = [&](const std::string& descr, const std::string& data, std::size_t count) {
    return TokenFile::open(write(folder / "a.npy", npy_header(1, npy_dictionary(descr, count)) + data));
  };
  std::vector<std::int32_t> one(1);
  expect_contains(refusal([&] { first_of("<i4", elements<std::int32_t>({-1}), 1).read(0, one, 1 << 30); }), "token -1");
  expect_contains(refusal([&] { first_of("|i1", elements<std::int8_t>({-128}), 1).read(0, one, 1 << 30); }), "token -128");
  expect_contains(refusal([&] { first_of("<i8", elements<std::int64_t>({std::int64_t{1} << 32}), 1).read(0, one, 1 << 30); }),
                  "token 4294967296");
  expect_contains(refusal([&] { first_of("<u8", elements<std::uint64_t>({-1}), 1).read(0, one, 1 << 30); }), "token 18446744073709551615");
  expect_contains(refusal([&] { first_of("<u4", elements<std::uint32_t>({-1}), 1).read(0, one, 1 << 30); }), "token 4294967295");
}

TEST(TokenFile, SurvivesBeingMovedAndRemovedFromItsFolder) {
  const TemporaryFolder folder;
  const auto tokens = some_tokens(100, 65536);
  auto file = TokenFile::open(write(folder / "a.bin", llmc_bytes(tokens)));
  const auto moved = std::move(file);
  std::filesystem::remove(folder / "a.bin");
  EXPECT_EQ(read_all(moved), tokens);
  write(folder / "a.bin", "another, shorter file under the same name");
  EXPECT_EQ(read_all(moved), tokens);
}

TEST(TokenFile, IsReadFromManyThreads) {
  const TemporaryFolder folder;
  const auto tokens = some_tokens(5000, 65536);
  const auto file = TokenFile::open(write(folder / "a.bin", llmc_bytes(tokens)));
  std::vector<std::vector<std::int64_t>> seen(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : seen) threads.emplace_back([&] { mine = read_all(file); });
  }
  for (const auto& mine : seen) EXPECT_EQ(mine, tokens);
}

}  // namespace
}  // namespace flotilla::data
