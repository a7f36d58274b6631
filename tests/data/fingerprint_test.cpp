#include <set>

#include "data/token_files.hpp"
#include "flotilla/data/corpus.hpp"

namespace flotilla::data {
namespace {

using namespace testing;

std::uint64_t fingerprint_of(const std::filesystem::path& path, Format format = Format::automatic) {
  return TokenFile::open(path, format).fingerprint();
}

TEST(Fingerprint, ChangesWithAnyEditOfASmallFile) {
  const TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 150; ++i) content += static_cast<char>('a' + i % 26);
  std::set<std::uint64_t> seen{fingerprint_of(write(folder / "a.txt", content))};
  for (std::size_t i = 0; i < content.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      auto edited = content;
      edited[i] = static_cast<char>(edited[i] ^ (1 << bit));
      EXPECT_TRUE(seen.insert(fingerprint_of(write(folder / "a.txt", edited))).second) << "byte " << i << ", bit " << bit;
    }
  }
  for (std::size_t size = 1; size < content.size(); ++size) {
    EXPECT_TRUE(seen.insert(fingerprint_of(write(folder / "a.txt", content.substr(0, size)))).second) << size << " bytes";
  }
}

TEST(Fingerprint, DependsOnContentAndFormatAlone) {
  const TemporaryFolder folder;
  const auto bytes = elements<std::uint16_t>(some_tokens(64, 60000));
  const auto one = write(folder / "one.bin", bytes), other = write(folder / "another.bin", bytes);
  EXPECT_EQ(fingerprint_of(one, Format::raw_uint16), fingerprint_of(other, Format::raw_uint16));
  EXPECT_NE(fingerprint_of(one, Format::raw_uint16), fingerprint_of(one, Format::raw_uint32));
}

TEST(Fingerprint, CoversMegatronsIndex) {
  const TemporaryFolder folder;
  const auto tokens = some_tokens(10, 1000);
  std::set<std::uint64_t> seen;
  for (const auto& lengths : std::vector<std::vector<std::int32_t>>{{4, 6}, {5, 5}, {10}}) {
    const auto bytes = megatron_bytes<std::uint16_t>(tokens, lengths, 8);
    write(folder / "c.idx", bytes.index);
    write(folder / "c.bin", bytes.tokens);
    EXPECT_TRUE(seen.insert(fingerprint_of(folder / "c")).second);
  }
}

TEST(Fingerprint, OfALargeFileSeesBothEnds) {
  const TemporaryFolder folder;
  const auto path = write(folder / "large.bin", "x");
  const std::uintmax_t size = (std::uintmax_t{64} << 20) + 6;  // sparse: only the sampled blocks are read
  std::filesystem::resize_file(path, size);
  const auto edit = [&](std::uintmax_t at, char value) {
    std::fstream file{path, std::ios::binary | std::ios::in | std::ios::out};
    file.seekp(static_cast<std::streamoff>(at));
    file.put(value);
  };
  const auto before = fingerprint_of(path, Format::raw_uint16);
  for (const auto at : {std::uintmax_t{0}, size - 1}) {
    edit(at, '!');
    const auto after = fingerprint_of(path, Format::raw_uint16);
    EXPECT_NE(after, before) << "byte " << at;
    edit(at, at == 0 ? 'x' : '\0');
    EXPECT_EQ(fingerprint_of(path, Format::raw_uint16), before);
  }
  std::filesystem::resize_file(path, size + 2);
  EXPECT_NE(fingerprint_of(path, Format::raw_uint16), before);
}

TEST(Fingerprint, OfACorpusKnowsOrderAndSections) {
  const TemporaryFolder folder;
  const auto a = write(folder / "a.txt", std::string(100, 'a')), b = write(folder / "b.txt", std::string(100, 'b'));
  const auto of = [&](std::vector<std::filesystem::path> files, double fraction) {
    return open_corpora({files, {}, Format::automatic, fraction}).training.fingerprint();
  };
  const std::set<std::uint64_t> different{of({a}, 0),    of({b}, 0),      of({a, b}, 0),  of({b, a}, 0),
                                          of({a, a}, 0), of({a, b}, 0.1), of({a, b}, 0.2)};
  EXPECT_EQ(different.size(), 7u);
  std::filesystem::rename(a, folder / "moved.txt");
  EXPECT_TRUE(different.contains(of({folder / "moved.txt", b}, 0.1)));
}

TEST(Fingerprint, DoesNotChangeBetweenVersions) {
  const TemporaryFolder folder;
  const auto path = write(folder / "a.txt", "The same data must resume after an upgrade: this number is kept.");
  EXPECT_EQ(fingerprint_of(path), 8166362908875422374u);
}

}  // namespace
}  // namespace flotilla::data
