// Thousands of damaged files with a fixed seed: each is read or refused with one line, never a crash, and what is read is in bounds.
// tests/data/fuzz does the same with libFuzzer for as long as one likes.
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "data/token_files.hpp"
#include "flotilla/data/token_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);

namespace flotilla::data {
namespace {

using namespace testing;

std::string mutated(std::string bytes, std::mt19937& random) {
  const auto pick = [&](std::size_t limit) { return std::uniform_int_distribution<std::size_t>{0, limit - 1}(random); };
  for (auto edits = 1 + pick(3); edits > 0 && !bytes.empty(); --edits) {
    const auto at = pick(bytes.size());
    switch (pick(6)) {
      case 0: bytes[at] = static_cast<char>(pick(256)); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << pick(8))); break;
      case 2: bytes.resize(at); break;
      case 3: bytes.insert(at, 1 + pick(9), static_cast<char>(pick(256))); break;
      case 4: bytes.erase(at, 1 + pick(9)); break;
      default: {  // extreme numbers where a count may be
        const std::uint64_t value = std::vector<std::uint64_t>{0, ~0ull, 1ull << 63, (1ull << 63) - 1, 1ull << 32, 0x7FFFFFFF}[pick(6)];
        bytes.replace(at, 8, std::string(reinterpret_cast<const char*>(&value), std::min<std::size_t>(8, bytes.size() - at)));
      }
    }
  }
  return bytes;
}

/// True when the file was read, false when it was refused.
bool read_or_refuse(const std::filesystem::path& path, Format format) {
  try {
    const auto file = TokenFile::open(path, format);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
    file.read(0, tokens, 1 << 20);
    file.scan(0, file.size(), 1 << 20);
    for (const auto token : tokens) EXPECT_TRUE(token >= 0 && token < 1 << 20);
    static_cast<void>(file.fingerprint());
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::bad_input || error.kind() == ErrorKind::no_input);  // an index may look for its tokens
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(message.find(path.parent_path().string()), 0u) << message;
    return false;
  }
}

void expect_robust(std::uint32_t seed, int rounds,
                   const std::function<std::pair<std::filesystem::path, Format>(std::mt19937&)>& write_one) {
  std::mt19937 random{seed};
  int refused = 0;
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    const auto [path, format] = write_one(random);
    refused += !read_or_refuse(path, format);
  }
  EXPECT_GT(refused, rounds / 4) << "the mutations hit nothing that matters";
}

TEST(MutatedFile, Llmc) {
  const TemporaryFolder folder;
  const auto header = llmc_bytes(some_tokens(20, 1000));
  expect_robust(1, 1500, [&](std::mt19937& random) {
    // Damage near the numbers; the rest of the header is empty space.
    const auto bytes = mutated(header.substr(0, 16), random) + header.substr(16);
    return std::pair{write(folder / "a.bin", bytes), Format::llmc};
  });
}

TEST(MutatedFile, Npy) {
  const TemporaryFolder folder;
  expect_robust(2, 2500, [&](std::mt19937& random) {
    const auto bytes =
        npy_header(static_cast<int>(random() % 3) + 1, npy_dictionary("<u2", 20)) + elements<std::uint16_t>(some_tokens(20, 1000));
    return std::pair{write(folder / "a.npy", mutated(bytes, random)), Format::automatic};
  });
}

TEST(MutatedFile, MegatronIndex) {
  const TemporaryFolder folder;
  const auto good = megatron_bytes<std::uint16_t>(some_tokens(20, 1000), {3, 7, 10}, 8);
  write(folder / "c.bin", good.tokens);
  expect_robust(3, 2500, [&](std::mt19937& random) {
    write(folder / "c.idx", mutated(good.index, random));
    return std::pair{folder / "c", Format::megatron};
  });
}

TEST(MutatedFile, OfAnyKindDetectedByContent) {
  const TemporaryFolder folder;
  const std::vector<std::string> kinds{llmc_bytes(some_tokens(20, 1000)), elements<std::int64_t>(some_tokens(20, 1000)),
                                       npy_header(1, npy_dictionary("<i8", 20)) + elements<std::int64_t>(some_tokens(20, 1000)),
                                       megatron_bytes<std::uint16_t>(some_tokens(20, 1000), {3, 7, 10}, 8).index};
  expect_robust(4, 1500, [&](std::mt19937& random) {
    return std::pair{write(folder / "any", mutated(kinds[random() % kinds.size()], random)), Format::automatic};
  });
}

TEST(FuzzCorpus, StillHolds) {
  int inputs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{FLOTILLA_FUZZ_CORPUS}) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in{entry.path(), std::ios::binary};
    const std::string bytes{std::istreambuf_iterator<char>{in}, {}};
    SCOPED_TRACE(entry.path().string());
    LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());  // aborts when it does not hold
    ++inputs;
  }
  EXPECT_GE(inputs, 100);
}

}  // namespace
}  // namespace flotilla::data
