#include "flotilla/base/foreign_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla {
namespace {

const std::string euro = "\xe2\x82\xac", snake = "\xf0\x9f\x90\x8d";

TEST(ForeignText, ShowsWhatWouldMoveATerminal) {
  EXPECT_EQ(printable("n1"), "n1");
  EXPECT_EQ(printable("a\nb\r\tc\x1b[2J\x7f"), "a\\nb\\r\\tc\\x1b[2J\\u007f");
  EXPECT_EQ(printable(std::string_view{"\0", 1}), "\\x00");
  EXPECT_EQ(printable("caf\xc3\xa9 " + euro + snake), "caf\xc3\xa9 " + euro + snake);
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m")
      << "CSI in one character";
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "abc\xe2\x80\xa8"),
            "\\u202eabc\\u2028");
}

TEST(ForeignText, ShowsBytesThatAreNoCharacters) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82") << "cut off";
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond Unicode";
}

TEST(ForeignText, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("ab" + euro, 4), "ab...");
  EXPECT_EQ(printable("ab\n", 3), "ab...") << "not half an escape";
  EXPECT_EQ(in_quotes(std::string(1000, 'x')), "'" + std::string(60, 'x') + "...'");
}

TEST(ForeignText, KeepsBothEndsOfALongLine) {
  EXPECT_EQ(message_line("short\nline"), "short\\nline");
  for (std::size_t size : {499, 500, 501, 700, 100000}) {
    const auto line = message_line("/run/plan.json: " + std::string(size, 'x') + "; write 8");
    EXPECT_LE(line.size(), longest_line);
    EXPECT_TRUE(line.starts_with("/run/plan.json: x"));
    EXPECT_TRUE(line.ends_with("x; write 8"));
  }
  std::string all;
  for (int i = 0; i < 400; ++i) all += i % 2 == 0 ? euro : snake;
  EXPECT_EQ(printable(message_line(all), 10000), message_line(all)) << "no character is cut";
}

TEST(ForeignText, StaysTheSameWhenPrintedTwice) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const auto& text : {all, "\x1b]0;title\a" + euro, std::string(3000, '\n')}) {
    EXPECT_EQ(message_line(message_line(text)), message_line(text));
    EXPECT_EQ(printable_lines(printable_lines(text)), printable_lines(text));
  }
}

TEST(ForeignText, LinesKeepTheirNewlines) {
  EXPECT_EQ(printable_lines("a\n\x1b[1mb\n"), "a\n\\x1b[1mb\n");
  EXPECT_EQ(printable_lines(""), "");
  EXPECT_EQ(printable_output("\x1b[1mhead\x1b[0m\n\x1b[2Ja"), "\x1b[1mhead\x1b[0m\n\\x1b[2Ja") << "heads stay bold";
}

TEST(ForeignText, AnErrorIsOneLine) {
  const Error error{ErrorKind::bad_input, "/stages/0: type 'a\nflotilla: done\x1b[2J'" + std::string(10000, 'y') + "; write one"};
  const std::string line = error.what();
  EXPECT_LE(line.size(), longest_message);
  EXPECT_TRUE(std::ranges::none_of(line, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) << line;
  EXPECT_TRUE(line.ends_with("; write one"));
}

}  // namespace
}  // namespace flotilla
