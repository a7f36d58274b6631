#include "flotilla/files/text_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "flotilla/base/descriptor.hpp"
#include "flotilla/files/look.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::files::text_file_test {
namespace {

namespace fs = std::filesystem;
using tests::expect_contains;
using tests::expect_refused;

class TextFile : public ::testing::Test {
 protected:
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator{folder_.path()}, fs::directory_iterator{}));
  }

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
  tests::expect_contains(tests::refusal(ErrorKind::unavailable, [&] { write_text(path, "x"); }), path.string());
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

TEST_F(TextFile, WritesThroughWhatIsNoFile) {
  write_text("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Descriptor reader{::open(pipe.c_str(), O_RDONLY | O_NONBLOCK)};
  write_text(pipe, "through");
  char seen[16] = {};
  EXPECT_EQ(::read(reader.get(), seen, sizeof seen), 7);
  EXPECT_STREQ(seen, "through");
  EXPECT_TRUE(fs::is_fifo(pipe));
  fs::create_symlink("/dev/null", folder_ / "nothing");
  write_text(folder_ / "nothing", "x");
  EXPECT_TRUE(fs::is_symlink(folder_ / "nothing"));
  ::testing::internal::CaptureStdout();
  write_text("/dev/stdout", "said");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "said");
}

TEST_F(TextFile, APipeThatNobodyReadsHoldsNobody) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_contains(tests::refusal(ErrorKind::unavailable, [&] { write_text(pipe, "x"); }), "is a pipe that nobody reads");
}

TEST_F(TextFile, AnOwnFolderIsNoLinkAndNobodyElseMayWriteIntoIt) {
  make_own_folder(folder_ / "a" / "b");
  EXPECT_TRUE(fs::is_directory(folder_ / "a" / "b"));
  make_own_folder(folder_ / "a");
  const auto file = folder_.write("file", "x");
  expect_refused([&] { make_own_folder(file + "/below/it.0123.tmp"); }, file + ": is not a folder; name another place");
  fs::create_directory_symlink(folder_ / "a", folder_ / "link");
  expect_refused([&] { make_own_folder(folder_ / "link"); }, "link", "is a symbolic link");
  expect_refused([&] { make_own_folder(folder_ / "link/"); }, "link", "is a symbolic link");
  fs::permissions(folder_ / "a", fs::perms::others_write, fs::perm_options::add);
  expect_refused([&] { make_own_folder(folder_ / "a"); }, "a", "everybody may write into it");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directory(folder_ / "theirs");
  ASSERT_EQ(::chown((folder_ / "theirs").c_str(), 12345, 12345), 0);
  expect_refused([&] { make_own_folder(folder_ / "theirs"); }, "theirs", "belongs to user 12345");
}

TEST_F(TextFile, AFolderOnTheWayIntoWhichEverybodyMayWriteIsRootsOrSticky) {
  const auto way = folder_ / "way";
  make_own_folder(way / "own");
  fs::permissions(way, fs::perms{0777});
  if (::geteuid() != 0) expect_refused([&] { make_own_folder(way / "own"); }, "everybody may write into " + way.string());
  fs::permissions(way, fs::perms{01777});
  make_own_folder(way / "own");
}

TEST_F(TextFile, WhatIsAskedForIsTheUsersOwnAndTakenAway) {
  const auto ask = [&](fs::perms mode) {
    const auto request = folder_.write("request", "x");
    fs::permissions(request, mode);
    return request;
  };
  EXPECT_EQ(take_own_text(ask(fs::perms{0600})), "x");
  EXPECT_EQ(entries(), 0u);
  fs::create_symlink(ask(fs::perms{0600}), folder_ / "link");
  expect_refused([&] { take_own_text(folder_ / "link"); }, "link", "not a regular file");
  EXPECT_EQ(read_text(folder_ / "request"), "x") << "the link has gone, not the file";
  EXPECT_EQ(entries(), 1u);
  expect_refused([&] { take_own_text(ask(fs::perms{0620})); }, "request", "others may write it");
  EXPECT_EQ(entries(), 0u);
  fs::create_directories(folder_ / "request" / "full");
  expect_refused([&] { take_own_text(folder_ / "request"); }, "request", "is not a regular file");
  EXPECT_FALSE(fs::exists(folder_ / "request")) << "it is not refused again and again";
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(ask(fs::perms{0600}).c_str(), 12345, 12345), 0);
  expect_refused([&] { take_own_text(folder_ / "request"); }, "request", "belongs to user 12345");
}

TEST_F(TextFile, ACopyHasNoMoreModeBitsThanItsSource) {
  const fs::path source = folder_.write("source", "secret");
  fs::permissions(source, fs::perms{0600});
  fs::create_symlink(source, folder_ / "link");
  copy_text(folder_ / "link", folder_ / "copy", [&](std::uint32_t owner, const fs::path& real) {
    EXPECT_EQ(owner, ::geteuid());
    EXPECT_EQ(real, fs::canonical(source));
  });
  EXPECT_EQ(read_text(folder_ / "copy"), "secret");
  EXPECT_EQ(fs::status(folder_ / "copy").permissions(), fs::perms{0600});
  const auto refuse = [](std::uint32_t, const fs::path& real) { throw Error{ErrorKind::bad_input, real.string() + ": is another's"}; };
  expect_refused([&] { copy_text(folder_ / "link", folder_ / "none", refuse); }, "source", "is another's");
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

/// A socket's name is short: a relative one.
TEST_F(TextFile, WritesToWhoListensOnASocket) {
  const auto before = fs::current_path();
  fs::current_path(folder_.path());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "socket");
  const Descriptor listener{::socket(AF_UNIX, SOCK_STREAM, 0)};
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_contains(tests::refusal(ErrorKind::unavailable, [] { write_text("socket", "nobody hears"); }),
                  "is a socket that cannot be written to");
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  write_text("socket", "heard");
  char heard[16] = {};
  const Descriptor peer{::accept(listener.get(), nullptr, nullptr)};
  EXPECT_EQ(::read(peer.get(), heard, sizeof heard), 5);
  EXPECT_STREQ(heard, "heard");
  EXPECT_TRUE(fs::is_socket("socket"));
  fs::current_path(before);
}

TEST_F(TextFile, NeverWritesThroughALinkToAFile) {
  const auto precious = folder_ / "precious", link = folder_ / "out.json";
  write_text(precious, "old");
  fs::create_symlink(precious, link);
  expect_contains(tests::refusal(ErrorKind::unavailable, [&] { write_text(link, "new"); }), "is a symbolic link");
  fs::create_symlink(folder_ / "none", folder_ / "dangling");
  expect_contains(tests::refusal(ErrorKind::unavailable, [&] { write_text(folder_ / "dangling", "new"); }), "is a symbolic link");
  EXPECT_EQ(read_text(precious), "old");
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(TextFile, KeepsTheModeAndTheUmask) {
  const auto before = ::umask(0);
  write_text(folder_ / "new", "x");
  make_folders(folder_ / "a" / "b");
  ::umask(027);
  write_text(folder_ / "less", "x");
  ::umask(before);
  const auto mode = [&](const char* name) { return static_cast<unsigned>(fs::status(folder_ / name).permissions()); };
  EXPECT_EQ(mode("new"), 0664u) << "nothing is writable for everybody";
  EXPECT_EQ(mode("a"), 0775u);
  EXPECT_EQ(mode("a/b"), 0775u);
  EXPECT_EQ(mode("less"), 0640u);
  fs::permissions(folder_ / "new", fs::perms{0600});
  write_text(folder_ / "new", "y");
  EXPECT_EQ(mode("new"), 0600u);
}

TEST(Unfinished, IsToldByItsEnding) {
  EXPECT_EQ(stem_of_unfinished("outcome.json.0123456789abcdef.tmp"), "outcome.json");
  EXPECT_EQ(stem_of_unfinished("1.json.0123456789abcdef.own.fedcba9876543210.tmp"), "1.json");
  for (const char* other :
       {"notes.tmp", "a.0123456789ABCDEF.tmp", "a.0123456789abcde.tmp", ".0123456789abcdef.tmp", "a.0123456789abcdef", ""})
    EXPECT_EQ(stem_of_unfinished(other), "") << other;
  EXPECT_NE(unguessable(), unguessable());
}

TEST_F(TextFile, ALookKnowsOnlyAMissingNameAsAbsent) {
  EXPECT_FALSE(facts_of(folder_ / "none"));
  EXPECT_FALSE(names_in(folder_ / "none" / "deeper"));
  write_text(folder_ / "b", "xyz");
  fs::create_symlink("b", folder_ / "a");
  EXPECT_EQ(names_in(folder_), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(facts_of(folder_ / "a")->type, FileType::link);
  EXPECT_EQ(facts_of(folder_ / "b")->size.count, 3);
  EXPECT_FALSE(names_in(folder_ / "b")) << "a file holds no names: ENOTDIR";
  tests::refusal(ErrorKind::unavailable, [&] { facts_of(folder_ / std::string(300, 'x')); });
}

TEST_F(TextFile, RefusesWhatIsNotAReadableFile) {
  tests::expect_absent([&] { read_text(folder_ / "none"); }, "none: cannot be opened: No such file");
  EXPECT_FALSE(read_text_if_there(folder_ / "none"));
  EXPECT_EQ(read_text_if_there(folder_.write("there", "words")), "words");
  tests::refusal(ErrorKind::no_input, [&] { read_text_if_there(folder_ / std::string(300, 'x')); });
  tests::expect_absent([&] { require_there(folder_ / "none", "a model"); }, "expected a model");
  expect_refused([&] { read_text(folder_); }, "regular file");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_refused([&] { read_text(folder_ / "pipe"); }, "regular file");
  write_text(folder_ / "large", std::string(2000, 'x'));
  expect_refused([&] { read_text(folder_ / "large", Bytes{1999}); }, "larger than");
  EXPECT_EQ(read_text(folder_ / "large", Bytes{2000}).size(), 2000u);
}

}  // namespace
}  // namespace flotilla::files::text_file_test
