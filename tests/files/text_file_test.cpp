#include "flotilla/files/text_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::files {
namespace {

namespace fs = std::filesystem;
using tests::expect_refused;

class TextFile : public ::testing::Test {
 protected:
  std::size_t entries() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator{folder_.path()}, fs::directory_iterator{})); }

  tests::TemporaryFolder folder_;
};

TEST_F(TextFile, RoundTripsAndReplaces) {
  const fs::path path = folder_ / "a.json";
  write_text(path, "first");
  write_text(path, std::string("sec\0nd", 6));
  EXPECT_EQ(read_text(path), std::string("sec\0nd", 6));
  EXPECT_EQ(entries(), 1u) << "no temporary file stays";
  write_text(path, "");
  EXPECT_EQ(read_text(path), "");
  const std::string large(3'000'000, 'x');
  write_text(path, large);
  EXPECT_EQ(read_text(path), large);
}

TEST_F(TextFile, AFailedWriteLeavesNothing) {
  const fs::path path = folder_ / "none" / "a.json";
  try {
    write_text(path, "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    EXPECT_NE(std::string{error.what()}.find(path.string()), std::string::npos);
  }
  fs::create_directory(folder_ / "taken");
  EXPECT_THROW(write_text(folder_ / "taken", "x"), Error);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(TextFile, ReadersNeverSeeHalfAFile) {
  const fs::path path = folder_ / "a";
  const std::string even(1 << 16, 'e'), odd(1 << 15, 'o');
  write_text(path, even);
  std::jthread writer{[&] {
    for (int i = 0; i < 20; ++i) write_text(path, i % 2 == 0 ? odd : even);
  }};
  for (int i = 0; i < 500; ++i) {
    const std::string seen = read_text(path);
    ASSERT_TRUE(seen == even || seen == odd) << seen.size();
  }
}

TEST_F(TextFile, WritersAtOnceDoNotMix) {
  const fs::path path = folder_ / "a";
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < 4; ++w)
      writers.emplace_back([&, w] {
        for (int i = 0; i < 5; ++i) write_text(path, std::string(static_cast<std::size_t>(1000 + w), static_cast<char>('a' + w)));
      });
  }
  const std::string seen = read_text(path);
  EXPECT_EQ(seen, std::string(static_cast<std::size_t>(1000 + seen[0] - 'a'), seen[0]));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(TextFile, RefusesWhatIsNotAReadableFile) {
  expect_refused([&] { read_text(folder_ / "none"); }, "none", "No such file");
  expect_refused([&] { read_text(folder_); }, "regular file");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_refused([&] { read_text(folder_ / "pipe"); }, "regular file");
  write_text(folder_ / "large", std::string(2000, 'x'));
  expect_refused([&] { read_text(folder_ / "large", Bytes{1999}); }, "larger than");
  EXPECT_EQ(read_text(folder_ / "large", Bytes{2000}).size(), 2000u);
}

}  // namespace
}  // namespace flotilla::files
