#include "flotilla/store/disk.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "flotilla/base/error.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::store::disk_test {
namespace {

std::int64_t allocated(const std::filesystem::path& path) {
  struct stat facts {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0);
  return facts.st_blocks * 512;
}

TEST(Disk, ReserveAllocatesAndKeepsContents) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "file";
  std::ofstream{path} << "contents";
  reserve(path, {1 << 20});
  EXPECT_EQ(std::filesystem::file_size(path), 1u << 20);
  EXPECT_GE(allocated(path), 1 << 20);
  std::string word;
  std::ifstream{path}.read((word.resize(8), word.data()), 8);
  EXPECT_EQ(word, "contents");
}

TEST(Disk, ReserveNeverShrinks) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "file";
  std::ofstream{path} << "contents";
  reserve(path, {4});
  EXPECT_EQ(std::filesystem::file_size(path), 8u);
}

TEST(Disk, TooMuchIsRefusedWithBothNumbers) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "file";
  std::ofstream{path} << "x";
  const Bytes more = free_space(path) + Bytes{std::int64_t{1} << 40};
  try {
    reserve(path, more);
    FAIL() << "reserved more than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::temporary);
    const std::string message = error.what();
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(more.count)), std::string::npos) << message;
    EXPECT_NE(message.find("free"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Disk, FlushTellsWhatIsMissing) {
  const tests::TemporaryFolder folder;
  std::ofstream{folder / "file"} << "x";
  flush(folder / "file");
  flush(folder.path());
  EXPECT_THROW(flush(folder / "none"), Error);
  EXPECT_THROW(free_space(folder / "none"), Error);
}

}  // namespace
}  // namespace flotilla::store::disk_test
