#include "flotilla/base/print.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace flotilla {
namespace {

constexpr std::size_t block_of_a_launcher = 4096;

/// Standard output is a pipe that keeps writes apart while this lives.
class Pieces {
 public:
  Pieces() : out_{::dup(STDOUT_FILENO)} {
    EXPECT_EQ(std::fflush(stdout), 0);  // what the test's own program printed before
    EXPECT_EQ(::pipe2(ends_.data(), O_DIRECT | O_CLOEXEC), 0);
    ::dup2(ends_[1], STDOUT_FILENO);
  }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;
  ~Pieces() {
    give_back();
    ::close(ends_[0]);
  }

  std::vector<std::string> read() {
    give_back();
    std::vector<std::string> pieces;
    std::array<char, 65536> buffer;
    for (ssize_t got; (got = ::read(ends_[0], buffer.data(), buffer.size())) > 0;)
      pieces.emplace_back(buffer.data(), static_cast<std::size_t>(got));
    return pieces;
  }

 private:
  void give_back() {
    if (out_ < 0) return;
    ::dup2(out_, STDOUT_FILENO);
    ::close(out_);
    ::close(ends_[1]);
    out_ = -1;
  }

  int out_;
  std::array<int, 2> ends_{};
};

TEST(Print, LongTextsGoOutInWholeLinesThatALauncherForwardsAtOnce) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i) + " " + std::string(static_cast<std::size_t>(i % 79), 'x') + "\n";
  Pieces pieces;
  ASSERT_TRUE(print(text));
  std::string all;
  for (const auto& piece : pieces.read()) {
    EXPECT_EQ(piece.back(), '\n');
    EXPECT_LE(2 * piece.size(), block_of_a_launcher);
    all += piece;
  }
  EXPECT_EQ(all, text);
}

TEST(Print, WhatWasBufferedComesFirst) {
  Pieces pieces;
  std::printf("buffered\n");
  ASSERT_TRUE(print("printed\n"));
  std::string all;
  for (const auto& piece : pieces.read()) all += piece;
  EXPECT_EQ(all, "buffered\nprinted\n");
}

TEST(Print, OneLineThatIsLongerThanABlockStaysWhole) {
  const std::string line(3 * block_of_a_launcher, 'x');
  Pieces pieces;
  ASSERT_TRUE(print(line + "\nnext\n"));
  std::string all;
  for (const auto& piece : pieces.read()) all += piece;
  EXPECT_EQ(all, line + "\nnext\n");
}

TEST(Print, SaysThatStandardOutputCannotBeWritten) {
  const int out = ::dup(STDOUT_FILENO), full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ::dup2(full, STDOUT_FILENO);
  const bool printed = print("a line\n");
  ::dup2(out, STDOUT_FILENO);
  ::close(out);
  ::close(full);
  EXPECT_FALSE(printed);
}

}  // namespace
}  // namespace flotilla
