#include "app/common/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "flotilla/base/key_values.hpp"

namespace flotilla::app {
namespace {

TEST(TextTable, AlignsColumnsAndLeavesNoTrailingBlanks) {
  TextTable table{{{"name"}, {"ranks", Align::right}, {"note"}}};
  table.add({"a", "12", "x"});
  table.add({"longer", "3"});
  EXPECT_EQ(table.print(),
            "name    ranks  note\n"
            "------  -----  ----\n"
            "a          12  x\n"
            "longer      3\n");
}

TEST(TextTable, CountsCharactersNotBytes) {
  TextTable table{{{"n"}, {"v", Align::right}}};
  table.add({"caf\u00e9", "1"});
  table.add({"cafe", "22"});
  EXPECT_EQ(table.print(), "n      v\n----  --\ncaf\u00e9   1\ncafe  22\n");
  EXPECT_EQ(shown_width("\u2500\u00e9x"), 3u);
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    widest = std::max(widest, shown_width(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return widest;
}

TEST(TextTable, WhatIsTooWideTakesSeveralLines) {
  TextTable table{{{"first"}, {"figure", Align::right}, {"micro batches", Align::right}, {"last"}}};
  table.add({"some words that take much of a line", "12.5", "3 x 4", "others that would not find room beside them"}, "a note");
  table.add({"b", "1", "2", std::string(90, 'y')});
  const auto out = table.print();
  EXPECT_LE(widest_line(out), 80u) << out;
  EXPECT_NE(out.find("\n  a note\n"), std::string::npos) << out;
  EXPECT_NE(out.find("12.5"), std::string::npos) << "a figure is broken\n" << out;
  std::size_t letters = 0;
  for (const char c : out) letters += c == 'y' ? 1 : 0;
  EXPECT_EQ(letters, 90u) << "a long word loses letters\n" << out;
}

TEST(TextTable, WhatFitsStaysInOneLine) {
  TextTable table{{{"micro batches", Align::right}, {"words"}}};
  table.add({"1", std::string(60, 'x')});
  EXPECT_EQ(table.print(),
            "micro batches  words\n-------------  " + std::string(60, '-') + "\n            1  " + std::string(60, 'x') + "\n");
}

TEST(TextTable, ColourAndLinesOnlyWhereAskedFor) {
  TextTable table{{{"n"}}};
  table.add({"1"});
  EXPECT_EQ(table.print().find('\033'), std::string::npos);
  EXPECT_EQ(table.print({.colour = true}).rfind("\033[1mn\033[0m\n-\n", 0), 0u);
  EXPECT_EQ(table.print({.unicode = true}), "n\n\u2500\n1\n");
}

TEST(KeyValues, PadsKeysAndIndentsFurtherLines) {
  EXPECT_EQ(key_values({{"a", "1"}, {"long", "2"}, {"b", ""}}), "a     1\nlong  2\nb\n");
  EXPECT_EQ(key_values({{"k", "x\n\ny\n"}, {"l", "z"}}), "k  x\n\n   y\nl  z\n");
}

TEST(Output, ATestsOutputIsNoTerminal) {
  // CTest runs us with a pipe; on a developer's terminal the width is the terminal's.
  EXPECT_GE(output_width(), 80);
  EXPECT_LE(output_width(), 100);
}

}  // namespace
}  // namespace flotilla::app
