// Files that are missing, broken or lie: one line with file, byte and what was expected.
#include <sys/stat.h>

#include "data/token_files.hpp"
#include "flotilla/data/token_file.hpp"
#include "support/child.hpp"

namespace flotilla::data {
namespace {

using namespace testing;

class HostileFile : public ::testing::Test {
 protected:
  /// What opening `bytes` as `format` is refused with; it must name the file.
  std::string refusal_of(const std::string& name, std::string_view bytes, Format format = Format::automatic) {
    const auto path = write(folder_ / name, bytes);
    const auto message = refusal([&] { TokenFile::open(path, format); });
    expect_contains(message, path.string());
    return message;
  }
  std::string npy_refusal(const std::string& dictionary, const std::string& data = {"\1\0\2\0", 4}) {
    return refusal_of("a.npy", npy_header(1, dictionary) + data);
  }
  TemporaryFolder folder_;
};

TEST_F(HostileFile, MissingFolderEmptyOrPipe) {
  for (const auto format : {Format::automatic, Format::text, Format::npy, Format::megatron}) {
    const auto message = tests::refusal(ErrorKind::no_input, [&] { TokenFile::open(folder_ / "nowhere.txt", format); });
    expect_contains(message, (folder_ / "nowhere.txt").string());
    expect_contains(message, "No such file");
  }
  for (const auto format : {Format::automatic, Format::text}) {
    expect_contains(refusal([&] { TokenFile::open(folder_.path(), format); }), "is a folder");
    expect_contains(refusal_of("empty.txt", "", format), "is empty");
  }
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_contains(refusal([&] { TokenFile::open(folder_ / "pipe"); }), "not a regular file");
}

TEST_F(HostileFile, NotReadable) {
  const auto path = write(folder_ / "secret.txt", "secret");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const auto expect_refused = [&] { tests::expect_absent([&] { TokenFile::open(path); }, "Permission denied"); };
  if (geteuid() != 0) return expect_refused();
  // Root may read everything: a child that is nobody in particular tries.
  tests::Child child{[&] {
    if (setuid(65534) != 0) return 2;
    expect_refused();
    return HasFailure() ? 1 : 0;
  }};
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(HostileFile, RawOfOddSize) {
  expect_contains(refusal_of("a.bin", "abc", Format::raw_uint16), "byte 3: the file ends inside a token; expected a multiple of 2");
  expect_contains(refusal_of("a.bin", "abcdef", Format::raw_uint32), "byte 6: the file ends inside a token; expected a multiple of 4");
}

TEST_F(HostileFile, LlmcHeader) {
  const auto good = llmc_bytes(some_tokens(100, 1000));
  const auto with = [&](std::size_t at, std::int32_t value) {
    auto bytes = good;
    std::memcpy(bytes.data() + at, &value, 4);
    return bytes;
  };
  expect_contains(refusal_of("a.bin", with(0, 20240521), Format::llmc), "byte 0: expected llm.c's magic number 20240520, found 20240521");
  expect_contains(refusal_of("a.bin", with(4, 2)), "byte 4: expected version 1");
  expect_contains(refusal_of("a.bin", with(8, 101)), "byte 8: promises 101 tokens");
  expect_contains(refusal_of("a.bin", with(8, 101)), "truncated");
  expect_contains(refusal_of("a.bin", with(8, 99)), "longer than its header says");
  expect_contains(refusal_of("a.bin", with(8, 0)), "byte 8: expected a token count of at least 1, found 0");
  expect_contains(refusal_of("a.bin", with(8, -5)), "found -5");
  expect_contains(refusal_of("a.bin", with(8, 0x7FFFFFFF)), "promises 2147483647 tokens");
  expect_contains(refusal_of("a.bin", good.substr(0, 1000)), "byte 1000: the file ends here; expected llm.c's header of 1024 bytes");
  expect_contains(refusal_of("a.bin", good.substr(0, good.size() - 1)), "truncated");
}

TEST_F(HostileFile, NpyHeaderBytes) {
  const auto good = npy_header(1, npy_dictionary("<u2", 2)) + std::string{"\1\0\2\0", 4};
  expect_contains(refusal_of("a.npy", "PK\3\4 this is an npz file"), "byte 0: expected NumPy's magic");
  expect_contains(refusal_of("a.npy", good.substr(0, 9)), "byte 9: the file ends here");
  expect_contains(refusal_of("a.npy", good.substr(0, 40)), "byte 40: the file ends here");
  expect_contains(refusal_of("a.npy", npy_header(2, "{}").substr(0, 11)), "byte 11: the file ends here");
  auto version = good;
  version[6] = 4;
  expect_contains(refusal_of("a.npy", version), "byte 6: expected version 1, 2 or 3");
  std::string huge = npy_header(3, npy_dictionary("<u2", 2));
  huge[10] = huge[11] = '\x7f';
  expect_contains(refusal_of("a.npy", huge), "byte 8: expected a header of at most");
}

TEST_F(HostileFile, NpyDictionary) {
  expect_contains(npy_refusal("{'descr': '>u2', 'fortran_order': False, 'shape': (2,)}"), "expected little-endian tokens, found '>u2'");
  expect_contains(npy_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"), "expected an integer type");
  expect_contains(npy_refusal("{'descr': '', 'fortran_order': False, 'shape': (2,)}"), "expected an integer type");
  expect_contains(npy_refusal("{'descr': '<\n\x1b[31m', 'fortran_order': False, 'shape': (2,)}"), "found '<\\n\\x1b[31m'");
  expect_contains(npy_refusal("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}"), "expected an integer type");
  expect_contains(npy_refusal("{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (2,)}"), "structured");
  expect_contains(npy_refusal("{'descr': '<u2', 'fortran_order': True, 'shape': (2,)}"), "C order");
  expect_contains(npy_refusal("{'descr': '<u2', 'fortran_order': False, 'shape': (1, 2)}"), "one dimension, found 2");
  expect_contains(npy_refusal("{'descr': '<u2', 'fortran_order': False, 'shape': ()}"), "one dimension, found 0");
  expect_contains(npy_refusal("{'descr': '<u2', 'fortran_order': False, 'shape': (0,)}", ""), "empty array");
  expect_contains(npy_refusal("{'descr': '<u2', 'fortran_order': False, 'shape': (3,)}"), "promises 3 tokens");
  expect_contains(npy_refusal("{'descr': '<u2', 'fortran_order': False, 'shape': (1,)}"), "longer than its header says");
  expect_contains(npy_refusal("{'descr': '<u8', 'fortran_order': False, 'shape': (4611686018427387905,)}"), "promises 4611686018427387905");
}

TEST_F(HostileFile, NpyDictionaryThatIsNoDictionary) {
  expect_contains(npy_refusal(""), "expected '{'");
  expect_contains(npy_refusal("[1, 2]"), "byte 10: NumPy header: expected '{'");
  expect_contains(npy_refusal("{'descr': '<u2', 'shape': (2,)}"), "expected the keys");
  expect_contains(npy_refusal("{'descr': '<u2', 'descr': '<u2'}"), "byte 27: NumPy header: expected each of the keys");
  expect_contains(npy_refusal("{'descr': '<u2"), "closing quote");
  expect_contains(npy_refusal("{'shape': (-2,)}"), "not negative");
  expect_contains(npy_refusal("{'shape': (99999999999999999999,)}"), "whole number");
  expect_contains(npy_refusal("{'shape': (2,"), "expected a whole number");
  expect_contains(npy_refusal("{'fortran_order': 0}"), "True or False");
  expect_contains(npy_refusal("{'descr': '<u2', 'fortran_order': False, 'shape': (2,)} and more"), "the end of the header");
}

TEST_F(HostileFile, MegatronIndex) {
  const auto good = megatron_bytes<std::uint16_t>(some_tokens(10, 1000), {4, 6}, 8);
  write(folder_ / "c.bin", good.tokens);
  const auto with = [&](std::size_t at, auto value) {
    auto bytes = good.index;
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return refusal_of("c.idx", bytes);
  };
  expect_contains(with(0, std::uint8_t{0}), "byte 0: expected Megatron's magic");
  expect_contains(with(9, std::uint64_t{2}), "byte 9: expected version 1");
  for (const int code : {0, 6, 7, 9, 255})
    expect_contains(with(17, static_cast<std::uint8_t>(code)), "byte 17: expected the code of an integer type");
  expect_contains(with(17, std::uint8_t{4}), "expected it to end there");
  expect_contains(with(18, std::uint64_t{3}), "byte 18: 3 sequences and 3 document entries need a file of");
  expect_contains(with(18, ~std::uint64_t{0}), "byte 18: promises 18446744073709551615 sequences");
  expect_contains(with(18, std::uint64_t{0}), "byte 18: expected at least one of sequences");
  expect_contains(with(26, ~std::uint64_t{0}), "byte 26: promises 18446744073709551615 document entries");
  expect_contains(with(26, std::uint64_t{2}), "need a file of");
  expect_contains(with(38, std::int32_t{7}), "expected it to end there");
  expect_contains(with(38, std::int32_t{-6}), "expected it to end there");
  expect_contains(with(50, ~std::int64_t{0}), "expected it to end there");
  expect_contains(refusal_of("c.idx", good.index.substr(0, good.index.size() - 1)), "need a file of");
  expect_contains(refusal_of("c.idx", good.index.substr(0, 20)),
                  "byte 20: the file ends here; expected a Megatron index header of 34 bytes");
}

TEST_F(HostileFile, MegatronTokens) {
  const auto good = megatron_bytes<std::uint16_t>(some_tokens(10, 1000), {4, 6}, 8);
  write(folder_ / "c.idx", good.index);
  tests::expect_absent([&] { TokenFile::open(folder_ / "c"); }, (folder_ / "c.bin").string() + ": cannot be opened");
  write(folder_ / "c.bin", good.tokens.substr(2));
  expect_contains(refusal([&] { TokenFile::open(folder_ / "c"); }), "has 18 bytes; expected it to end there");
}

TEST_F(HostileFile, MegatronIndexIsCheckedWholeByScan) {
  const auto good = megatron_bytes<std::uint16_t>(some_tokens(10, 1000), {2, 3, 5}, 8);
  write(folder_ / "c.bin", good.tokens);
  const auto scan_with = [&](std::size_t at, auto value) {
    auto bytes = good.index;
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    const auto file = TokenFile::open(write(folder_ / "c.idx", bytes));
    return refusal([&] { file.scan(0, file.size(), 1000); });
  };
  expect_contains(scan_with(38, std::int32_t{4}), "byte 62: expected the pointer 12 of sequence 2, found 10");
  expect_contains(scan_with(38, std::int32_t{-3}), "byte 38: expected a length that is not negative");
  expect_contains(scan_with(54, std::int64_t{6}), "byte 54: expected the pointer 4 of sequence 1, found 6");
  expect_contains(scan_with(78, std::int64_t{4}), "byte 78: expected a document start from 0 to 3, found 4");
  expect_contains(scan_with(86, std::int64_t{0}), "byte 86: expected a document start from 1 to 3, found 0");
}

TEST_F(HostileFile, CutWhileOpen) {
  const auto path = write(folder_ / "a.txt", std::string(100000, 'a'));
  const auto file = TokenFile::open(path);
  std::vector<std::int32_t> tokens(10);
  EXPECT_NO_THROW(file.read(99990, tokens, 256));
  std::filesystem::resize_file(path, 5000);
  expect_contains(refusal([&] { file.read(99990, tokens, 256); }), "byte 5000: the file ends here now");
  expect_contains(refusal([&] { file.fingerprint(); }), "do not change a file");
}

}  // namespace
}  // namespace flotilla::data
