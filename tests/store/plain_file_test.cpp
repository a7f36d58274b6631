#include "flotilla/store/plain_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::store::plain_file_test {
namespace {

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span{text}); }

std::string read(const PlainFile& file, std::size_t count, std::int64_t offset) {
  std::string found(count, '?');
  file.read(std::as_writable_bytes(std::span{found}), offset);
  return found;
}

TEST(PlainFile, ReadsWhatWasWrittenWhereItWasWritten) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "x";
  {
    const auto file = PlainFile::create(path);
    file.write(bytes("later"), 100);
    file.write(bytes("first"), 0);
    file.flush();
  }
  PlainFile::open_for_writing(path).write(bytes("st"), 3);
  const auto file = PlainFile::open_for_reading(path);
  EXPECT_EQ(file.size().count, 105);
  EXPECT_EQ(read(file, 5, 0), "first");
  EXPECT_EQ(read(file, 6, 99), std::string("\0later", 6));
}

TEST(PlainFile, AFileThatEndsBeforeIsDamaged) {
  const tests::TemporaryFolder folder;
  PlainFile::create(folder / "x").write(bytes("1234"), 0);
  const auto file = PlainFile::open_for_reading(folder / "x");
  EXPECT_EQ(tests::error_of([&] { read(file, 2, 3); }).kind(), ErrorKind::bad_input);
  EXPECT_EQ(tests::error_of([&] { PlainFile::open_for_reading(folder / "y"); }).kind(), ErrorKind::no_input);
  EXPECT_EQ(tests::error_of([&] { PlainFile::open_for_writing(folder / "y"); }).kind(), ErrorKind::unavailable);
}

TEST(PlainFile, FollowsNoLinkToWrite) {
  const tests::TemporaryFolder folder;
  std::ofstream{folder / "theirs"} << "kept";
  std::filesystem::create_symlink(folder / "theirs", folder / "link");
  EXPECT_EQ(tests::error_of([&] { PlainFile::create(folder / "link"); }).kind(), ErrorKind::unavailable);
  EXPECT_EQ(tests::error_of([&] { PlainFile::open_for_writing(folder / "link"); }).kind(), ErrorKind::unavailable);
  EXPECT_EQ(read(PlainFile::open_for_reading(folder / "theirs"), 4, 0), "kept");
}

TEST(PlainFile, AWriteThatFailsIsAnErrorAndNoMore) {
  const tests::TemporaryFolder folder;
  const auto file = PlainFile::create(folder / "x");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{4, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_EQ(tests::error_of([&] { file.write(bytes("12345678"), 0); }).kind(), ErrorKind::unavailable);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  file.write(bytes("12345678"), 0);
  EXPECT_EQ(read(PlainFile::open_for_reading(folder / "x"), 8, 0), "12345678");
}

TEST(PlainFile, InMemoryTakesRoomForWhatIsWritten) {
  const auto file = PlainFile::in_memory({std::int64_t{1} << 40});
  file.write(bytes("far"), std::int64_t{1} << 39);
  EXPECT_EQ(read(PlainFile::open_for_reading(file.path()), 3, std::int64_t{1} << 39), "far");
  EXPECT_EQ(file.size().count, std::int64_t{1} << 40);
}

}  // namespace
}  // namespace flotilla::store::plain_file_test
