#include "flotilla/store/disk.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"
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
  const std::string message = tests::refusal(ErrorKind::temporary, [&] { reserve(path, more); });
  for (const auto& part : {path.string(), std::to_string(more.count), std::string{"free"}}) tests::expect_contains(message, part);
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
