#include "app/common/table.hpp"

#include <gtest/gtest.h>

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
